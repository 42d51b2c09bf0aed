// The device key: 32 random bytes in a file outside the volume.

import CLibrary
package import CommandSupport
package import HostSystem
package import SodiumKit
import VolumeFormat

/// Reading and writing of device key files.
package enum DeviceKeyFile {
    /// Reads a device key. Nil if the file is missing and `isOptional`.
    package static func read(_ path: HostPath, isOptional: Bool) throws(CommandFailure) -> SecretKey? {
        if isOptional, unsafe path.withCString({ unsafe access($0, F_OK) }) != 0, errno == ENOENT { return nil }
        let file = try openFile(path)
        var key = try empty()
        let count: Int
        do throws(SystemError) {
            count = try key.withMutableBytes { (span: inout MutableSpan<UInt8>) throws(SystemError) -> Int in
                try file.read(into: &span)
            }
        } catch {
            throw .init(.authentication, "device key \(path): \(error.reason)")
        }
        guard count == SecretKey.byteCount else { throw wrongLength(path) }
        return key
    }

    /// Reads a device key that cannot be read again later: from a pipe, or a path that only this process has, such as /dev/stdin.
    /// Nil for every other file.
    static func readOnce(_ path: HostPath) throws(CommandFailure) -> SecretKey? {
        let absolute = (try? path.absolute()) ?? path
        let isOwn = ["/dev/stdin", "/dev/fd", "/proc"].contains { absolute.isInside(HostPath($0)) }
        // The usual read says what is wrong with it. A FIFO is waited for here until something writes to it.
        guard let file = try? Descriptor(opening: path, O_RDONLY | O_NOCTTY), let status = try? file.status() else {
            return nil
        }
        switch status.st_mode & S_IFMT {
        case S_IFREG where !isOwn: return nil
        case S_IFREG, S_IFIFO: break
        case S_IFCHR where !Terminal.isTerminal(file.number): break
        case S_IFCHR:
            throw .init(.usage, "--device-key \(path): is a terminal, which would show the key; use a file or a pipe")
        default: return nil
        }
        var key = try empty()
        do {
            let count = try key.withMutableBytes { (span: inout MutableSpan<UInt8>) throws(SystemError) -> Int in
                try file.read(into: &span)
            }
            var rest = try SecretBytes(byteCount: 1)
            let more = try rest.withMutableBytes { (span: inout MutableSpan<UInt8>) throws(SystemError) -> Int in
                try file.read(into: &span)
            }
            guard count == SecretKey.byteCount, more == 0 else { throw wrongLength(path) }
        } catch let error as CommandFailure {
            throw error
        } catch {
            throw .init(.authentication, "device key \(path): \((error as? SystemError)?.reason ?? "cannot be read")")
        }
        return key
    }

    private static func wrongLength(_ path: HostPath) -> CommandFailure {
        .init(.authentication, "device key \(path): not a device key (a device key has exactly 32 bytes)")
    }

    /// A new random key.
    package static func random() throws(CommandFailure) -> SecretKey {
        do throws(SodiumError) { return try SecretKey.random() } catch { throw ErrorMessages.memory(error) }
    }

    private static func empty() throws(CommandFailure) -> SecretKey {
        do throws(SodiumError) { return try SecretKey() } catch { throw ErrorMessages.memory(error) }
    }

    /// Opens a file that can be a device key: a regular file of 32 bytes.
    private static func openFile(_ path: HostPath) throws(CommandFailure) -> Descriptor {
        do throws(SystemError) {
            let file = try Descriptor(opening: path, O_RDONLY | O_NOCTTY | O_NONBLOCK)
            let status = try file.status()
            if status.st_mode & S_IFMT == S_IFREG, status.st_size == off_t(SecretKey.byteCount) { return file }
        } catch {
            throw .init(.authentication, "device key \(path): \(error.reason)")
        }
        throw wrongLength(path)
    }

    /// Writes a new device key durably with mode 0600. It never overwrites an existing file.
    package static func write(_ key: borrowing SecretKey, to path: HostPath) throws(CommandFailure) {
        do throws(SystemError) {
            try makeDirectories(path.parent)
            try create(path) { file throws(SystemError) in
                try key.withBytes { (bytes) throws(SystemError) in try file.write(bytes) }
            }
        } catch {
            throw .init(.failure, "device key \(path): \(error.reason)")
        }
    }

    /// Makes a file of mode 0600 whose contents `write` writes, and makes it durable. If that fails, no file is left.
    static func create(
        _ path: HostPath, _ write: (borrowing Descriptor) throws(SystemError) -> Void
    ) throws(SystemError) {
        let file = try Descriptor(opening: path, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
        do throws(SystemError) {
            try write(file)
            guard fsync(file.number) == 0 else { throw .last("fsync", path.description) }
        } catch {
            remove(path)
            throw error
        }
        // A directory may be closed to reading.
        if let directory = try? Descriptor(opening: path.parent, O_RDONLY | O_DIRECTORY) { _ = fsync(directory.number) }
    }

    /// Every copy of the volume would include a device key that is inside it.
    package static func refuseInside(_ key: HostPath, _ volume: HostPath) throws(CommandFailure) {
        guard let volume = try? volume.resolved(), var directory = (try? key.absolute())?.parent else { return }
        // Missing directories on the way would be made.
        while true {
            if let found = try? directory.resolved() {
                guard found.isInside(volume) else { return }
                throw .init(
                    .usage,
                    "--device-key \(key): is inside the volume, where it would protect nothing; choose another place")
            }
            guard directory.parent != directory else { return }
            directory = directory.parent
        }
    }

    /// Removes a key that was written for a change that then failed.
    package static func remove(_ path: HostPath) { _ = unsafe path.withCString { unsafe unlink($0) } }

    /// Refuses a path at which something else than a device key is, as that is not to be renamed.
    package static func requireKeyOrNothing(at path: HostPath) throws(CommandFailure) {
        guard let found = try? FileStatus.read((try? path.resolved()) ?? path) else { return }
        guard found.st_mode & S_IFMT == S_IFREG, found.st_size == SecretKey.byteCount else {
            throw .init(.usage, "--device-key \(path): exists, and is not a device key; choose another path")
        }
    }

    /// Renames a key that is about to be replaced to a free name: copies of the volume may need it.
    ///
    /// - Returns: its new name. Nil if there was none.
    package static func setAside(_ path: HostPath) throws(CommandFailure) -> HostPath? {
        for number in 1...1000 {
            let old = LocalFile.replacedKey(path, attempt: number)
            do throws(SystemError) {
                try FileChange.rename(path, to: old, replacing: false)
                return old
            } catch {
                if error.code == ENOENT { return nil }
                guard error.code == EEXIST else { throw .init(.failure, "device key \(path): \(error.reason)") }
            }
        }
        throw .init(.failure, "device key \(path): there are a thousand old device keys beside it; remove some")
    }
}
