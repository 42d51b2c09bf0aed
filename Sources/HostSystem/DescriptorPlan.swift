// Who gets how many of the daemon's descriptors: the one home of these numbers.

import Glibc

/// The descriptors of a process that serves a mount, divided so that the control socket, an unlock and the end of the mount
/// never wait for what programs have open.
package struct DescriptorPlan: Sendable {
    /// The process's own: 3 standard streams, /dev/fuse, the guard's pipe, the mount point, the volume's directory, the
    /// control socket, the mount table, the system log; and for a moment an unlock (keybag, device key, state file and its
    /// lock and directory: 5), the helper's calls on the mount (4), and unmounting through fusermount3 (5).
    package static let own = 32
    /// Late files: what a lock that found pages still to be written has written them to.
    package static let late = 8
    /// With fewer in all a mount is refused.
    package static let least = 80

    /// All that the process may have (RLIMIT_NOFILE).
    package let limit: Int
    /// Connections to the control socket that have made a request; as many more may wait.
    package let connections: Int
    /// Requests of each kind that is always answered, at the time.
    package let desk: Int
    /// All that the store may hold.
    package let store: Int
    /// What open files may hold of these; the rest is for operations on names.
    package let files: Int

    /// The plan for a limit.
    package init(limit: Int) {
        self.limit = limit
        connections = min(64, max(8, limit / 32))
        desk = connections / 4
        store = max(limit - Self.own - Self.late - 2 * connections - 2 * desk, 16)
        files = store - min(store / 4, 64)
    }

    /// By the limit that the process has now.
    package static var ofThisProcess: DescriptorPlan {
        var limit = rlimit()
        guard unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0 else {
            return DescriptorPlan(limit: 1024)
        }
        return DescriptorPlan(limit: Int(min(limit.rlim_cur, 1 << 30)))
    }
}
