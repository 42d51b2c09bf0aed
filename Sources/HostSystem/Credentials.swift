// What a process may do with files (credentials(7), capabilities(7)).

import CLibrary

/// Capabilities and groups of a process or thread, as the kernel's own file systems ask for them.
package struct Credentials {
    /// A capability by its number.
    package enum Capability: UInt64 {
        /// CAP_FSETID: set-ID bits stay when a file is changed.
        case keepSetID = 4
        /// CAP_SYS_ADMIN.
        case administrate = 21
    }

    /// Whether this process acts as root.
    package static var isRoot: Bool { geteuid() == 0 }

    /// The user by whom file systems judge it. Nil if it is not shown.
    package let user: UInt32?
    private let capabilities: UInt64
    private let groups: [UInt32]

    /// Nil if the process cannot be seen.
    package init?(of process: Int32) {
        guard process > 0, let bytes = try? readFile(HostPath("/proc/\(process)/status")) else { return nil }
        var fields: [Substring: [Substring]] = [:]
        for line in String(decoding: bytes, as: UTF8.self).split(separator: "\n") {
            let words = line.split(whereSeparator: { $0 == "\t" || $0 == " " })
            if let name = words.first { fields[name] = Array(words.dropFirst()) }
        }
        // Real, effective, saved and file system's group; then the supplementary ones.
        groups = ((fields["Gid:"] ?? []).suffix(1) + (fields["Groups:"] ?? [])).compactMap { UInt32($0) }
        // Real, effective, saved and file system's user.
        user = fields["Uid:"]?.last.flatMap { UInt32($0) }
        capabilities = fields["CapEff:"]?.first.flatMap { UInt64($0, radix: 16) } ?? 0
        self.process = process
    }

    private let process: Int32

    /// Whether it has the capability in this process's user namespace (user_namespaces(7)). False if that cannot be seen.
    package func has(_ capability: Capability) -> Bool {
        guard capabilities & 1 << capability.rawValue != 0, let own = Processes.namespace("user", of: "self") else {
            return false
        }
        return Processes.namespace("user", of: "\(process)") == own
    }

    /// Whether a group is its own or a supplementary one.
    package func belong(to group: UInt32) -> Bool { groups.contains(group) }
}
