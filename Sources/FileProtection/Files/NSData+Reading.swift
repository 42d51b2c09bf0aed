// NSData and NSString. Foundation's errors lack the path and the class, so these members add them.

import PlainFoundation

extension NSData {
    /// Reads a file (`NSData.init(contentsOf:options:)`).
    ///
    /// - Throws: `CocoaError` 257 if the file is locked; then `isProtectedDataUnavailable` is true.
    public convenience init(contentsOf url: URL, options: NSData.ReadingOptions = []) throws {
        do { try self.init(plainContentsOf: url, options: options) } catch { throw told(error, url) }
    }

    /// Reads the file at a path. See `init(contentsOf:options:)`.
    public convenience init(contentsOfFile path: String, options: NSData.ReadingOptions = []) throws {
        try self.init(contentsOf: URL(fileURLWithPath: path), options: options)
    }
}

extension NSString {
    /// Reads a file as text (`NSString.init(contentsOf:encoding:)`).
    ///
    /// - Throws: `CocoaError` 257 if the file is locked; then `isProtectedDataUnavailable` is true.
    public convenience init(contentsOf url: URL, encoding: UInt) throws {
        do { try self.init(plainContentsOf: url, encoding: encoding) } catch { throw told(error, url) }
    }

    /// Reads the file at a path as text. See `init(contentsOf:encoding:)`.
    public convenience init(contentsOfFile path: String, encoding: UInt) throws {
        try self.init(contentsOf: URL(fileURLWithPath: path), encoding: encoding)
    }

    /// Reads a file as text and detects its encoding. See `init(contentsOf:encoding:)`.
    public convenience init(contentsOf url: URL, usedEncoding: UnsafeMutablePointer<UInt>?) throws {
        do { unsafe try self.init(plainContentsOf: url, usedEncoding: usedEncoding) } catch { throw told(error, url) }
    }

    /// Reads the file at a path as text and detects its encoding. See `init(contentsOf:encoding:)`.
    public convenience init(contentsOfFile path: String, usedEncoding: UnsafeMutablePointer<UInt>?) throws {
        unsafe try self.init(contentsOf: URL(fileURLWithPath: path), usedEncoding: usedEncoding)
    }
}

/// Foundation's error for reading a file, with the path, and with the class if the lock caused it.
private func told(_ error: any Error, _ url: URL) -> any Error {
    let plain = error as NSError
    guard url.isFileURL, plain.domain == NSPOSIXErrorDomain else { return error }
    return CocoaError.of(Int32(plain.code), .read, url.path)
}
