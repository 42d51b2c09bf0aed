// The bare mount point. Checks whether it can be used, and makes it unwritable for as long as nothing is mounted there.

import CLibrary
import CommandSupport
import HostSystem
import VolumeAccess

/// The directory that is mounted on, opened before the mount covers it.
final class MountPoint: Sendable {
    /// Nil below an automount, whose directory nobody can write to, and whose mount would not expire while it is open.
    private let directory: Descriptor?
    private let mode: mode_t
    /// Whether its end must not restore it.
    private let isClosed = Lock(false)
    /// Absolute, with links resolved, as in the mount table.
    let path: HostPath

    /// Refuses a directory that cannot be mounted on, with the reason.
    static func check(_ path: HostPath, volume: HostPath) throws(CommandFailure) {
        let resolved: HostPath
        do throws(SystemError) {
            resolved = try path.resolved()
            let status = try FileStatus.read(resolved)
            guard status.st_mode & S_IFMT == S_IFDIR else { throw SystemError(code: ENOTDIR, call: "lstat") }
        } catch {
            switch error.code {
            case ENOENT: throw .init(.mountPoint, "\(path): no such directory; make the mount point first (mkdir)")
            case ENOTDIR: throw .init(.mountPoint, "\(path): the mount point is not a directory")
            case ENOTCONN: throw dead(path)
            default: throw .init(.mountPoint, "\(path): the mount point cannot be used: \(error.reason)")
            }
        }
        _ = try FoundVolume.text(resolved)
        let source: HostPath
        do throws(SystemError) { source = try volume.resolved() } catch { throw ErrorMessages.system(error, .volume) }
        if resolved == source {
            throw .init(.mountPoint, "\(path): is the volume itself; choose another directory as mount point")
        }
        if resolved.isInside(source) {
            throw .init(.mountPoint, "\(path): is inside the volume; choose a mount point outside it")
        }
        if source.isInside(resolved) {
            throw .init(
                .mountPoint,
                "\(volume): is inside the mount point, so its own mount would hide it; choose another mount point"
            )
        }
        if let mounted = try? MountTable.entry(at: resolved), mounted.isProtectfs {
            if MountLookup.isDead(mounted) { throw dead(path) }
            throw .init(.busy, "\(path): a protectfs volume (\(mounted.source)) is already mounted there")
        }
        do {
            let names = try FileStatus.names(in: resolved)
            guard names.isEmpty else { throw isFull(path, names, volume) }
        } catch let error as CommandFailure {
            throw error
        } catch let error as SystemError {
            throw .init(.mountPoint, "\(path): the mount point cannot be used: \(error.reason)")
        } catch {
            throw .init(.mountPoint, "\(path): the mount point cannot be used")
        }
    }

    /// It may be what programs have saved there while the volume was not mounted.
    private static func isFull(_ path: HostPath, _ names: [HostPath], _ volume: HostPath) -> CommandFailure {
        let shown = names.map(\.description).sorted().prefix(3).joined(separator: ", ")
        return .init(
            .mountPoint,
            "\(path): the mount point is not empty; in it: \(shown)\(names.count > 3 ? ", and \(names.count - 3) more" : ""). If that was saved while the volume was not mounted, this moves it into the volume: protectfs import --move \(path.word) \(volume.word)"
        )
    }

    private static func dead(_ path: HostPath) -> CommandFailure {
        .init(
            .mountPoint,
            "\(path): the daemon of the mount there has died; remove the mount with protectfs unmount \(path.word)")
    }

    /// Opens the mount point before it is mounted on.
    init(_ path: HostPath) throws(CommandFailure) {
        do throws(SystemError) {
            self.path = try path.resolved()
            let directory = try Descriptor(opening: self.path, O_RDONLY | O_DIRECTORY)
            let status = try directory.status()
            mode = status.st_mode & 0o7777
            // An earlier mount has left it unwritable, and fusermount3 refuses a directory that its user may not write to.
            if mode & 0o200 == 0, status.st_uid == geteuid(), !Credentials.isRoot {
                _ = fchmod(directory.number, mode | 0o200)
            }
            let isAutomount = (try? MountTable.entry(at: self.path))?.type == "autofs"
            self.directory = isAutomount ? nil : consume directory
        } catch {
            throw .init(.mountPoint, "\(path): the mount point cannot be used: \(error.reason)")
        }
    }

    /// Takes the write permission of the covered directory for good, so that nothing is saved in it while nothing is mounted there:
    /// after a restart, or after a crash. fusermount3 needs it writable, so this comes after mounting. A private place is nobody's to
    /// save in.
    /// - Returns: whether it was writable until now.
    func close() -> Bool {
        isClosed.withLock { $0 = true }
        guard !SystemPaths.runtimes.contains(where: path.isInside) else { return false }
        return change(to: mode & ~0o222) && mode & 0o222 != 0
    }

    /// Leaves the directory as it was found, because nothing was mounted on it.
    func restore() {
        isClosed.withLock { $0 = true }
        _ = change(to: mode)
    }

    private func change(to mode: mode_t) -> Bool {
        switch directory {
        case .some(let directory): fchmod(directory.number, mode) == 0
        case .none: false
        }
    }

    deinit { if !isClosed.withLock({ $0 }) { restore() } }
}
