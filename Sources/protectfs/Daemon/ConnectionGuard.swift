// What a dying daemon leaves behind: programs that get errors, and do not hang.

import CConnectionGuard
import HostSystem

/// A small process beside the daemon that aborts the mount's connection when the daemon dies, however it does.
///
/// The end of a daemon alone does not always end its connection: a thread of it that waits in the kernel for a page to
/// be written back (FUSE_NOTIFY_INVAL_INODE, in a lock) waits for the daemon itself, keeps /dev/fuse open, and cannot be
/// killed. Every program on the mount would then hang with it.
struct ConnectionGuard: ~Copyable {
    private let messages: Descriptor

    /// Forks the guard: before any secret is read, as a fork shares memory, and on the main thread, whose end it waits for.
    /// Nil where no process can be had.
    init?() {
        let number = pfs_guard_start()
        guard number >= 0 else { return nil }
        messages = Descriptor(taking: number)
    }

    /// There is a mount to guard now. False: the guard is gone.
    borrowing func watch(_ entry: MountEntry) -> Bool {
        let path = entry.mountPoint.bytes
        var mount = pfs_guarded()
        mount.major = entry.major
        mount.minor = entry.minor
        let isWhole = unsafe withUnsafeMutableBytes(of: &mount.mount_point) { field in
            guard path.count < field.count else { return false }
            unsafe field.copyBytes(from: path)
            return true
        }
        guard isWhole else { return false }
        return unsafe pfs_guard_watch(messages.number, &mount) == 0
    }
}
