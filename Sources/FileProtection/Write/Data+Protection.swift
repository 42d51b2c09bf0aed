// Data and NSData: reading and writing whole files, by Foundation's names.

import PlainFoundation

extension Data {
    /// Writes the data, with the class that the options name.
    ///
    /// The class is there before the first byte is. Without one in the options a file that is there keeps its class, also
    /// through `.atomic`, and a new one takes its directory's default.
    public func write(to url: URL, options: Data.WritingOptions = []) throws {
        try ProtectedWrite.write(self, to: url, options: options)
    }

    /// Reads a file; the error for a locked one is 257 and answers `isProtectedDataUnavailable`.
    public init(contentsOf url: __shared URL, options: Data.ReadingOptions = []) throws {
        self = try explaining { try Plain.read(url, options: options) }
    }
}

extension NSData {
    /// Writes the data, with the class that the options name: see `Data.write(to:options:)`.
    public func write(to url: URL, options: NSData.WritingOptions = []) throws {
        try ProtectedWrite.write(Data(referencing: self), to: url, options: options)
    }

    /// Writes the data to a path: see `Data.write(to:options:)`.
    public func write(toFile path: String, options: NSData.WritingOptions = []) throws {
        try ProtectedWrite.write(Data(referencing: self), to: URL(fileURLWithPath: path), options: options)
    }

    /// Writes the data to a path, keeping a file's class; false where that fails.
    public func write(toFile path: String, atomically: Bool) -> Bool {
        (try? write(toFile: path, options: atomically ? .atomic : [])) != nil
    }

    /// Writes the data, keeping a file's class; false where that fails.
    public func write(to url: URL, atomically: Bool) -> Bool {
        (try? write(to: url, options: atomically ? .atomic : [])) != nil
    }
}
