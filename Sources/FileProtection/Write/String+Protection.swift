// Text written to files: by Foundation's names, with FileProtection's errors and classes kept.

extension StringProtocol {
    /// Writes the text; a file that is there keeps its class, also atomically, and a new one takes its directory's default.
    public func write(to url: URL, atomically: Bool, encoding: String.Encoding) throws {
        guard let data = data(using: encoding) else {
            throw CocoaError(
                .fileWriteInapplicableStringEncoding,
                userInfo: [NSFilePathErrorKey: url.path, NSStringEncodingErrorKey: encoding.rawValue])
        }
        try data.write(to: url, options: atomically ? .atomic : [])
    }

    /// Writes the text to a path: see `write(to:atomically:encoding:)`.
    public func write(toFile path: some StringProtocol, atomically: Bool, encoding: String.Encoding) throws {
        try write(to: URL(fileURLWithPath: String(path)), atomically: atomically, encoding: encoding)
    }
}
