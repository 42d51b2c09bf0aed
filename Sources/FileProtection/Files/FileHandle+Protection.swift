// FileHandle's initialisers: Foundation's errors for them lack the path, and so cannot say which class refused.

import Glibc

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

private enum Opened {
    static func descriptor(_ url: URL, _ flags: Int32, _ access: Access) throws -> Int32 {
        guard url.isFileURL else { throw CocoaError.of(EINVAL, access, url.absoluteString) }
        let descriptor = unsafe open(url.path, flags | O_CLOEXEC)
        guard descriptor >= 0 else { throw CocoaError.of(errno, access, url.path) }
        return descriptor
    }
}
