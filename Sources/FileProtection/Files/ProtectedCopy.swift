// Copies files within protected mounts. Each copy has its class before its first byte is written.

import CLibrary
import CLinuxShim

enum ProtectedCopy {
    /// A source or target of a copy: a name in an open directory, in bytes, and the path for errors and delegates.
    private struct Place {
        let directory: Int32
        let name: [CChar]
        let text: String

        init(_ path: String) {
            directory = AT_FDCWD
            name = Array(path.utf8CString)
            text = path
        }

        init(_ name: [CChar], in directory: Int32, _ place: Place) {
            self.directory = directory
            self.name = name
            text = place.text + "/" + String(decoding: name.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        }

        /// A path for `Staging`, which is valid even if the names of the directories above are not UTF-8.
        var sibling: String { directory == AT_FDCWD ? text : "/proc/self/fd/\(directory)/sibling" }

        var url: URL { URL(fileURLWithPath: text) }

        func status() throws(ProtectionSystemError) -> stat {
            var status = stat()
            guard unsafe fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0 else { throw .last("fstatat") }
            return status
        }

        func open(_ flags: Int32, _ use: FileUse) throws -> Int32 {
            let descriptor = unsafe openat(directory, name, flags | O_CLOEXEC)
            guard descriptor >= 0 else { throw CocoaError.of(errno, use, text) }
            return descriptor
        }
    }

    /// Copies an item to a path that does not exist. An error ends the copy of a tree and leaves the part that was
    /// copied, as in Foundation.
    ///
    /// Asks the manager's delegate about each item and about each error. Without a delegate it copies everything.
    static func copy(_ source: String, to target: String, asking manager: ProtectedFileManager?) throws {
        try copy(Place(source), to: Place(target), asking: manager)
    }

    private static func copy(_ source: Place, to target: Place, asking manager: ProtectedFileManager?) throws {
        let delegate = manager?.delegate
        if let manager, let delegate,
            !delegate.fileManager(manager, shouldCopyItemAt: source.url, to: target.url)
        {
            return
        }
        do {
            try copyAsked(source, to: target, asking: manager)
        } catch {
            guard let manager, let delegate,
                delegate.fileManager(
                    manager, shouldProceedAfterError: error, copyingItemAt: source.url, to: target.url)
            else { throw error }
        }
    }

    private static func copyAsked(_ source: Place, to target: Place, asking manager: ProtectedFileManager?) throws {
        let status: stat
        do throws(ProtectionSystemError) { status = try source.status() } catch {
            throw CocoaError.of(error.code, .read, source.text)
        }
        guard (try? target.status()) == nil else { throw CocoaError.of(EEXIST, .write, target.text) }
        switch status.st_mode & S_IFMT {
        case S_IFDIR:
            try tree(source, status, to: target, asking: manager)
        case S_IFLNK:
            var destination = [CChar](repeating: 0, count: Int(PATH_MAX) + 1)
            let count = unsafe readlinkat(source.directory, source.name, &destination, destination.count - 1)
            guard count >= 0 else { throw CocoaError.of(errno, .read, source.text) }
            guard unsafe symlinkat(destination, target.directory, target.name) == 0 else {
                throw CocoaError.of(errno, .write, target.text)
            }
        case S_IFREG:
            let from = try source.open(O_RDONLY, .read)
            defer { close(from) }
            try file(from, of: source.text, to: target, mode: status.st_mode & 0o7777)
        default:
            throw CocoaError.of(EOPNOTSUPP, .read, source.text)
        }
    }

    private static func tree(
        _ source: Place, _ status: stat, to target: Place, asking manager: ProtectedFileManager?
    ) throws {
        if target.directory == AT_FDCWD, isInside(target.text, status) {
            throw CocoaError.of(EINVAL, .write, target.text)
        }
        let from = try source.open(O_RDONLY | O_DIRECTORY | pfs_O_NOFOLLOW, .read)
        defer { close(from) }
        let type: FileProtectionType?
        do throws(ProtectionSystemError) { type = try ProtectionAttribute.get(from) } catch {
            throw CocoaError.of(error.code, .read, source.text)
        }
        try directory(target, default: type, mode: 0o700)
        let into = try target.open(O_RDONLY | O_DIRECTORY | pfs_O_NOFOLLOW, .write)
        defer { close(into) }
        for name in try names(in: from, source.text) {
            try copy(Place(name, in: from, source), to: Place(name, in: into, target), asking: manager)
        }
        guard fchmod(into, status.st_mode & 0o7777) == 0 else { throw CocoaError.of(errno, .write, target.text) }
    }

    /// Whether a path would be inside a directory. A copy of the directory into itself would never end.
    private static func isInside(_ path: String, _ directory: stat) -> Bool {
        var place = (path as NSString).deletingLastPathComponent
        if place.isEmpty { place = "." }
        var last: stat?
        var status = stat()
        while unsafe stat(place, &status) == 0 {
            if status.st_dev == directory.st_dev, status.st_ino == directory.st_ino { return true }
            // The root directory is its own parent.
            if let last, last.st_dev == status.st_dev, last.st_ino == status.st_ino { return false }
            last = status
            place += "/.."
        }
        return false
    }

    /// The names in a directory, in bytes, because they need not be text.
    static func names(in directory: Int32, _ path: String) throws -> [[CChar]] {
        let listed = unsafe openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)
        guard listed >= 0, let stream = unsafe fdopendir(listed) else { throw CocoaError.of(errno, .read, path) }
        defer { unsafe closedir(stream) }
        var names: [[CChar]] = []
        errno = 0
        while let entry = unsafe readdir(stream) {
            let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) { bytes in
                unsafe Array(bytes.prefix { $0 != 0 }.map { CChar(bitPattern: $0) }) + [0]
            }
            if name != [46, 0], name != [46, 46, 0] { names.append(name) }
            errno = 0
        }
        guard errno == 0 else { throw CocoaError.of(errno, .read, path) }
        return names
    }

    /// Makes a directory that has its default from the beginning.
    static func directory(_ path: String, default type: FileProtectionType?, mode: mode_t) throws {
        try directory(Place(path), default: type, mode: mode)
    }

    private static func directory(_ place: Place, default type: FileProtectionType?, mode: mode_t) throws {
        do throws(ProtectionSystemError) {
            guard let type else {
                guard unsafe mkdirat(place.directory, place.name, mode) == 0 else { throw .last("mkdir") }
                return
            }
            let staging = try Staging(beside: place.sibling, class: type)
            defer { staging.remove() }
            try staging.createDirectory(mode: mode)
            try staging.commit(to: place.name, in: place.directory, replacing: false)
        } catch {
            throw error.refusal(.write, place.text, class: type)
        }
    }

    /// Replaces a file by a copy of another one, with the given class.
    static func replace(_ target: String, by source: String, mode: mode_t, class type: FileProtectionType) throws {
        let from = try Place(source).open(O_RDONLY, .read)
        defer { close(from) }
        try file(from, of: source, to: Place(target), mode: mode, class: type, replacing: true)
    }

    /// Copies one file, with the given class or that of the source.
    private static func file(
        _ from: Int32, of source: String, to target: Place, mode: mode_t, class given: FileProtectionType? = nil,
        replacing: Bool = false
    ) throws {
        do throws(ProtectionSystemError) {
            let type = if let given { given } else { try ProtectionAttribute.get(from) }
            let staging = try Staging(beside: target.sibling, class: type)
            defer { staging.remove() }
            let file = try staging.create(mode: 0o600)
            defer { close(file) }
            if let type { try ProtectionAttribute.set(type, file) }
            try pour(from, into: file)
            guard fchmod(file, mode) == 0 else { throw .last("fchmod") }
            if replacing, fsync(file) != 0 { throw .last("fsync") }
            try staging.commit(to: target.name, in: target.directory, replacing: replacing)
        } catch {
            if error.call == "read" { throw CocoaError.of(error.code, .read, source) }
            throw error.refusal(replacing ? .replace : .write, target.text)
        }
    }

    private static func pour(_ from: Int32, into file: Int32) throws(ProtectionSystemError) {
        var buffer = Data(count: 1 << 20)
        while true {
            let count = unsafe buffer.withUnsafeMutableBytes { unsafe read(from, $0.baseAddress, $0.count) }
            if count == 0 { return }
            if count > 0 {
                try ProtectedWrite.fill(file, with: buffer.prefix(count))
            } else if errno != EINTR {
                throw .last("read")
            }
        }
    }
}
