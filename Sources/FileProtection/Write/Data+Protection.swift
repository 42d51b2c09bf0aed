// Data and NSData: reading and writing whole files, by Foundation's names.

import PlainFoundation

extension Data {
    /// Writes the data, with the class that the options name.
    ///
    /// The class is there before the first byte is. Without one in the options a file that is there keeps its class, also
    /// through `.atomic`, and a new one takes its directory's default.
    ///
    /// - Throws: `CocoaError` 513 where the class is closed or permission is missing, and Foundation's other codes;
    ///   `FileProtectionError.notProtected` where a class is named off a protected mount, as the policy says;
    ///   `FileProtectionError.unknownClass` where the options name several classes whose bits together are none. Name one:
    ///   `[.completeFileProtection, .noFileProtection]` are the bits of `.completeFileProtectionUnlessOpen`.
    public func write(to url: URL, options: Data.WritingOptions = []) throws {
        try ProtectedWrite.write(self, to: url, options: options)
    }

    /// Reads a file.
    ///
    /// A mapping (`.alwaysMapped`) of a file of class complete ends the process when it is touched while locked.
    ///
    /// - Throws: `CocoaError` 257 where the file is locked, which answers `isProtectedDataUnavailable`, or where permission
    ///   is missing; Foundation's other codes.
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

    /// Writes the data to a path, keeping a file's class; false where that fails, whatever the reason.
    public func write(toFile path: String, atomically: Bool) -> Bool {
        (try? write(toFile: path, options: atomically ? .atomic : [])) != nil
    }

    /// Writes the data, keeping a file's class; false where that fails.
    public func write(to url: URL, atomically: Bool) -> Bool {
        (try? write(to: url, options: atomically ? .atomic : [])) != nil
    }
}
