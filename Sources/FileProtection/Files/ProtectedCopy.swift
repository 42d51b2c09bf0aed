// Copies within protected mounts: each file has its class before its first byte.

import CLinuxShim
import Glibc

enum ProtectedCopy {
    /// Copies an item that is not there yet; a tree whole, or as far as it went when an error ends it, as Foundation does.
    static func copy(_ source: String, to target: String, with manager: ProtectedFileManager) throws {
        var status = stat()
        guard unsafe lstat(source, &status) == 0 else { throw CocoaError.of(errno, .read, source) }
        var other = stat()
        guard unsafe lstat(target, &other) != 0 else { throw CocoaError.of(EEXIST, .write, target) }
        switch status.st_mode & S_IFMT {
        case S_IFDIR:
            let type = (try? ProtectionAttribute.get(source)).flatMap { $0 }
            try directory(target, default: type, mode: 0o700)
            for name in try manager.contentsOfDirectory(atPath: source) {
                try copy(source + "/" + name, to: target + "/" + name, with: manager)
            }
            guard unsafe chmod(target, status.st_mode & 0o7777) == 0 else { throw CocoaError.of(errno, .write, target) }
        case S_IFLNK:
            let destination = try manager.destinationOfSymbolicLink(atPath: source)
            try manager.createSymbolicLink(atPath: target, withDestinationPath: destination)
        case S_IFREG:
            try file(source, to: target, mode: status.st_mode & 0o7777, replacing: false)
        default:
            throw CocoaError.of(EOPNOTSUPP, .read, source)
        }
    }

    /// Makes a directory that is not there yet, with its default from the first moment.
    static func directory(_ path: String, default type: FileProtectionType?, mode: mode_t) throws {
        do throws(ProtectionSystemError) {
            guard let type else {
                guard unsafe mkdir(path, mode) == 0 else { throw .last("mkdir") }
                return
            }
            let staging = try Staging(beside: path, class: type)
            defer { staging.remove() }
            try staging.createDirectory(mode: mode)
            try staging.commit(to: path, replacing: false)
        } catch {
            throw CocoaError.of(error.code, .write, path, class: type)
        }
    }

    /// Copies one file, with the class of the source or the one given.
    static func file(
        _ source: String, to target: String, mode: mode_t, class given: FileProtectionType? = nil, replacing: Bool
    ) throws {
        let from = unsafe open(source, O_RDONLY | O_CLOEXEC)
        guard from >= 0 else { throw CocoaError.of(errno, .read, source) }
        defer { close(from) }
        do throws(ProtectionSystemError) {
            let type = if let given { given } else { try ProtectionAttribute.get(from) }
            let staging = try Staging(beside: target, class: type)
            defer { staging.remove() }
            let file = try staging.create(mode: 0o600)
            defer { close(file) }
            if let type { try ProtectionAttribute.set(type, file) }
            try pour(from, into: file)
            guard fchmod(file, mode) == 0 else { throw .last("fchmod") }
            if replacing, fsync(file) != 0 { throw .last("fsync") }
            try staging.commit(to: target, replacing: replacing)
        } catch {
            throw CocoaError.of(
                error.code, error.call == "read" ? .read : .write, error.call == "read" ? source : target)
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
