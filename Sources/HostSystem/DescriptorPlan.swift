// How the daemon's descriptors are divided. No other file has these numbers.

import CLibrary
import CLinuxShim

/// The descriptors of a process that serves a mount. They are divided so that the control socket, an unlock and the end
/// of the mount never lack one because programs have many files open.
package struct DescriptorPlan: Sendable {
    /// The descriptors of the process itself. It always has 3 standard streams, /dev/fuse, the connection's abort file, the guard's pipe, the mount
    /// point, the volume's directory, the control socket, the mount table and the system log. For a moment it needs 5
    /// for an unlock (keybag, device key, state file, its lock and its directory), 4 for the helper's calls on the
    /// mount, 1 for an entry of the journal, and 5 for unmounting through fusermount3.
    package static let own = 32
    /// For late files. A lock that finds unwritten pages writes them to these.
    package static let late = 8
    /// A mount is refused if the process may have fewer than these.
    package static let least = 80

    /// The most that the process may have (RLIMIT_NOFILE).
    package let limit: Int
    /// The most control connections that have made a request. As many more may not have made one yet.
    package let connections: Int
    /// The most queued `lock` requests, and the most queued `status` requests.
    package let queued: Int
    /// The most that the store may have.
    package let store: Int
    /// The most of `store` that open files may use. The rest is for operations on names.
    package let files: Int

    /// The plan for a limit.
    package init(limit: Int) {
        self.limit = limit
        connections = min(64, max(8, limit / 32))
        queued = connections / 4
        store = max(limit - Self.own - Self.late - 2 * connections - 2 * queued, 16)
        files = store - min(store / 4, 64)
    }

    /// The plan for the current limit of this process.
    package static var ofThisProcess: DescriptorPlan {
        var limit = rlimit()
        guard unsafe pfs_open_files_limit(&limit) == 0 else {
            return DescriptorPlan(limit: 1024)
        }
        return DescriptorPlan(limit: Int(min(limit.rlim_cur, 1 << 30)))
    }
}
