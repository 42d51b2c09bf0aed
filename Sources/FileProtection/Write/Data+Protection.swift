// Data and NSData. Reads and writes whole files, with Foundation's names.

import PlainFoundation

extension Data {
    /// Writes the data to a file with the class that the options name (`Data.write(to:options:)`).
    ///
    /// The file has its class before its first byte is written. Without a class in the options an existing file keeps
    /// its class, also with `.atomic`, and a new file gets its directory's default.
    ///
    /// Name only one class, because the options are not independent bits: `[.completeFileProtection,
    /// .noFileProtection]` equals `.completeFileProtectionUnlessOpen`.
    ///
    /// - Throws: `CocoaError` 513 if the class is closed or permission is missing, and Foundation's other errors.
    ///   `FileProtectionError.notProtected` if the options name a class outside a protected mount and the policy
    ///   requires one. `FileProtectionError.unknownClass` if the options combine classes to an unknown value.
    public func write(to url: URL, options: Data.WritingOptions = []) throws {
        try ProtectedWrite.write(self, to: url, options: options)
    }

    /// Reads a file (`Data.init(contentsOf:options:)`).
    ///
    /// With `.alwaysMapped`, accessing the data of a file of class complete while the volume is locked ends the process
    /// with SIGBUS.
    ///
    /// - Throws: `CocoaError` 257 if the file is locked or permission is missing; `isProtectedDataUnavailable` is true
    ///   only for a locked file. Also Foundation's other errors.
    public init(contentsOf url: __shared URL, options: Data.ReadingOptions = []) throws {
        self = try explaining { try Plain.read(url, options: options) }
    }
}

extension NSData {
    /// Writes the data with the class that the options name. See `Data.write(to:options:)`.
    public func write(to url: URL, options: NSData.WritingOptions = []) throws {
        try ProtectedWrite.write(Data(referencing: self), to: url, options: options)
    }

    /// Writes the data to a path. See `Data.write(to:options:)`.
    public func write(toFile path: String, options: NSData.WritingOptions = []) throws {
        try ProtectedWrite.write(Data(referencing: self), to: URL(fileURLWithPath: path), options: options)
    }

    /// Writes the data to a path. An existing file keeps its class. False after any error.
    public func write(toFile path: String, atomically: Bool) -> Bool {
        (try? write(toFile: path, options: atomically ? .atomic : [])) != nil
    }

    /// Writes the data. An existing file keeps its class. False after any error.
    public func write(to url: URL, atomically: Bool) -> Bool {
        (try? write(to: url, options: atomically ? .atomic : [])) != nil
    }
}
