// NSData and NSString: Foundation's errors for them are bare numbers, without path and class.

import PlainFoundation

extension NSData {
    /// Reads a file; the error for a locked one is 257 and answers `isProtectedDataUnavailable`.
    public convenience init(contentsOf url: URL, options: NSData.ReadingOptions = []) throws {
        do { try self.init(plainContentsOf: url, options: options) } catch { throw told(error, url) }
    }

    /// Reads the file at a path: see `init(contentsOf:options:)`.
    public convenience init(contentsOfFile path: String, options: NSData.ReadingOptions = []) throws {
        try self.init(contentsOf: URL(fileURLWithPath: path), options: options)
    }
}

extension NSString {
    /// Reads a file as text; the error for a locked one is 257 and answers `isProtectedDataUnavailable`.
    public convenience init(contentsOf url: URL, encoding: UInt) throws {
        do { try self.init(plainContentsOf: url, encoding: encoding) } catch { throw told(error, url) }
    }

    /// Reads the file at a path: see `init(contentsOf:encoding:)`.
    public convenience init(contentsOfFile path: String, encoding: UInt) throws {
        try self.init(contentsOf: URL(fileURLWithPath: path), encoding: encoding)
    }

    /// Reads a file as text, and finds out its encoding: see `init(contentsOf:encoding:)`.
    public convenience init(contentsOf url: URL, usedEncoding: UnsafeMutablePointer<UInt>?) throws {
        do { unsafe try self.init(plainContentsOf: url, usedEncoding: usedEncoding) } catch { throw told(error, url) }
    }

    /// Reads the file at a path, and finds out its encoding: see `init(contentsOf:encoding:)`.
    public convenience init(contentsOfFile path: String, usedEncoding: UnsafeMutablePointer<UInt>?) throws {
        unsafe try self.init(contentsOf: URL(fileURLWithPath: path), usedEncoding: usedEncoding)
    }
}

/// Foundation's error for reading a file, with the path, and the class where it is the lock that refused.
private func told(_ error: any Error, _ url: URL) -> any Error {
    let plain = error as NSError
    guard url.isFileURL, plain.domain == NSPOSIXErrorDomain else { return error }
    return CocoaError.of(Int32(plain.code), .read, url.path)
}
