// Writes text to files, with Foundation's names. Files keep their classes, and errors are those of `Data.write`.

extension StringProtocol {
    /// Writes the text. An existing file keeps its class, also if `atomically` is true. A new file gets its directory's
    /// default.
    ///
    /// - Throws: the errors of `Data.write(to:options:)`.
    public func write(to url: URL, atomically: Bool, encoding: String.Encoding) throws {
        guard let data = data(using: encoding) else {
            throw CocoaError(
                .fileWriteInapplicableStringEncoding,
                userInfo: [NSFilePathErrorKey: url.path, NSStringEncodingErrorKey: encoding.rawValue])
        }
        try data.write(to: url, options: atomically ? .atomic : [])
    }

    /// Writes the text to a path. See `write(to:atomically:encoding:)`.
    public func write(toFile path: some StringProtocol, atomically: Bool, encoding: String.Encoding) throws {
        try write(to: URL(fileURLWithPath: String(path)), atomically: atomically, encoding: encoding)
    }
}
