// FileHandle. Foundation's errors lack the path and the class, so these members add them.

import CLibrary
import PlainFoundation

extension FileHandle {
    /// Opens a file for reading (`FileHandle.init(forReadingFrom:)`).
    ///
    /// - Throws: `CocoaError` 257 if the file is locked; then `isProtectedDataUnavailable` is true.
    public convenience init(forReadingFrom url: URL) throws {
        self.init(fileDescriptor: try Opened.descriptor(url, O_RDONLY, .read), closeOnDealloc: true)
    }

    /// Opens a file for writing (`FileHandle.init(forWritingTo:)`).
    ///
    /// - Throws: `CocoaError` 513 if the file is locked.
    public convenience init(forWritingTo url: URL) throws {
        self.init(fileDescriptor: try Opened.descriptor(url, O_WRONLY, .write), closeOnDealloc: true)
    }

    /// Opens a file for reading and writing (`FileHandle.init(forUpdating:)`).
    ///
    /// - Throws: `CocoaError` 513 if the file is locked.
    public convenience init(forUpdating url: URL) throws {
        self.init(fileDescriptor: try Opened.descriptor(url, O_RDWR, .write), closeOnDealloc: true)
    }
}

extension FileHandle {
    /// Reads at most `count` bytes; nil at the end of the file. The handle works again after an unlock.
    ///
    /// - Throws: `CocoaError` 257 if the file is locked; then `isProtectedDataUnavailable` is true.
    public func read(upToCount count: Int) throws -> Data? {
        try explaining(self, .read) { try Plain.read(self, upToCount: count) }
    }

    /// Reads to the end of the file; nil if there are no more bytes.
    ///
    /// - Throws: the errors of ``read(upToCount:)``.
    public func readToEnd() throws -> Data? { try explaining(self, .read) { try Plain.readToEnd(self) } }

    /// Writes all bytes at the handle's offset.
    ///
    /// - Throws: `CocoaError` 513 if the file is locked.
    public func write(contentsOf data: some DataProtocol) throws {
        try explaining(self, .write) { try Plain.write(self, contentsOf: data) }
    }

    /// Sets the file's length in bytes.
    ///
    /// - Throws: `CocoaError` 513 if the file is locked.
    public func truncate(atOffset offset: UInt64) throws {
        try explaining(self, .write) { try Plain.truncate(self, atOffset: offset) }
    }

    /// Moves to the end of the file and returns its offset in bytes.
    ///
    /// - Throws: `CocoaError` 257 if the file is locked and refuses the call.
    @discardableResult
    public func seekToEnd() throws -> UInt64 { try explaining(self, .read) { try Plain.seekToEnd(self) } }
}

/// Adds the path and the class to an error of Foundation if the lock caused it.
private func explaining<Value>(_ handle: FileHandle, _ use: FileUse, _ body: () throws -> Value) throws -> Value {
    do { return try body() } catch {
        guard let code = posixCode(error), code == EACCES else { throw error }
        let link = "/proc/self/fd/\(handle.fileDescriptor)"
        // The link of a file that has been removed ends with “(deleted)”. Then Foundation's error is thrown.
        guard let path = try? Foundation.FileManager.default.destinationOfSymbolicLink(atPath: link),
            let type = LockedPath.type(path, use)
        else { throw error }
        throw CocoaError.of(code, use, path, class: type)
    }
}

private enum Opened {
    static func descriptor(_ url: URL, _ flags: Int32, _ use: FileUse) throws -> Int32 {
        guard url.isFileURL else { throw CocoaError.of(EINVAL, use, url.absoluteString) }
        let descriptor = unsafe open(url.path, flags | O_CLOEXEC)
        guard descriptor >= 0 else { throw CocoaError.of(errno, use, url.path) }
        return descriptor
    }
}
