// FileHandle: Foundation's errors for it lack the path, and so cannot say which class refused.

import Glibc
import PlainFoundation

extension FileHandle {
    /// Opens a file for reading; the error for a locked one is 257 and answers `isProtectedDataUnavailable`.
    public convenience init(forReadingFrom url: URL) throws {
        self.init(fileDescriptor: try Opened.descriptor(url, O_RDONLY, .read), closeOnDealloc: true)
    }

    /// Opens a file for writing; the error for a locked one is 513.
    public convenience init(forWritingTo url: URL) throws {
        self.init(fileDescriptor: try Opened.descriptor(url, O_WRONLY, .write), closeOnDealloc: true)
    }

    /// Opens a file for reading and writing; the error for a locked one is 513.
    public convenience init(forUpdating url: URL) throws {
        self.init(fileDescriptor: try Opened.descriptor(url, O_RDWR, .write), closeOnDealloc: true)
    }
}

extension FileHandle {
    /// Reads at most `count` bytes; nil at the end. The error for a locked file is 257 and answers `isProtectedDataUnavailable`;
    /// the handle works again after the unlock.
    public func read(upToCount count: Int) throws -> Data? {
        try explaining(self, .read) { try Plain.read(self, upToCount: count) }
    }

    /// Reads to the end; nil where there is nothing. Errors are those of `read(upToCount:)`.
    public func readToEnd() throws -> Data? { try explaining(self, .read) { try Plain.readToEnd(self) } }

    /// Writes all bytes; the error for a locked file is 513.
    public func write(contentsOf data: some DataProtocol) throws {
        try explaining(self, .write) { try Plain.write(self, contentsOf: data) }
    }

    /// Cuts the file off or makes it longer; the error for a locked file is 513.
    public func truncate(atOffset offset: UInt64) throws {
        try explaining(self, .write) { try Plain.truncate(self, atOffset: offset) }
    }

    /// Goes to the end and says where it is; where a locked file refuses that, the error is 257.
    @discardableResult
    public func seekToEnd() throws -> UInt64 { try explaining(self, .read) { try Plain.seekToEnd(self) } }
}

/// Adds the path and the class to an error of Foundation's, when it is the lock that refused.
private func explaining<Value>(_ handle: FileHandle, _ use: FileUse, _ body: () throws -> Value) throws -> Value {
    do { return try body() } catch {
        guard let code = posixCode(error), code == EACCES else { throw error }
        let link = "/proc/self/fd/\(handle.fileDescriptor)"
        // A file that has been removed meanwhile is called “… (deleted)”: then it is Foundation's error.
        guard let path = try? Foundation.FileManager.default.destinationOfSymbolicLink(atPath: link),
            let type = Closed.type(path, use)
        else { throw error }
        throw CocoaError.of(code, use, path, class: type)
    }
}

/// The errno behind an error of Foundation's.
private func posixCode(_ error: any Error) -> Int32? {
    let cause = (error as NSError).userInfo[NSUnderlyingErrorKey] as? any Error ?? error
    let plain = cause as NSError
    return plain.domain == NSPOSIXErrorDomain ? Int32(plain.code) : nil
}

private enum Opened {
    static func descriptor(_ url: URL, _ flags: Int32, _ use: FileUse) throws -> Int32 {
        guard url.isFileURL else { throw CocoaError.of(EINVAL, use, url.absoluteString) }
        let descriptor = unsafe open(url.path, flags | O_CLOEXEC)
        guard descriptor >= 0 else { throw CocoaError.of(errno, use, url.path) }
        return descriptor
    }
}
