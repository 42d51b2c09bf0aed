// Ensures that programs get errors and do not hang when the daemon dies.

import CConnectionGuard
import HostSystem

/// A small process beside the daemon. It aborts the mount's connection when the daemon dies for any reason.
///
/// The end of a daemon does not always end its connection. During a lock a thread of it may wait in the kernel for a page to be
/// written back (FUSE_NOTIFY_INVAL_INODE). That thread then waits for its own dead daemon, keeps /dev/fuse open, and cannot be
/// killed. Every program on the mount would hang with it.
package struct ConnectionGuard: ~Copyable {
    private let messages: Descriptor

    /// Forks the guard before any secret is read, because a fork shares memory. Nil if the system cannot make a process.
    package init?() {
        let number = pfs_guard_start()
        guard number >= 0 else { return nil }
        messages = Descriptor(taking: number)
    }

    /// Tells the guard the mount to guard. False if the guard is gone.
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
    /// Tells the guard that the connection has ended regularly, and that nothing is to be done when the daemon ends.
    consuming func release() {
        var none = pfs_guarded()
        _ = unsafe pfs_guard_watch(messages.number, &none)
    }
}
