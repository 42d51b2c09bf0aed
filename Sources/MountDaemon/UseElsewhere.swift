// What keeps a mount alive that its mount point does not show any more: copies in other mount namespaces, and bind mounts.

package import HostSystem

/// Where else the file system of a mount is mounted.
package struct UseElsewhere {
    /// Seconds that programs elsewhere have between the lock of an unmount and the end of the connection.
    package static let grace: Int32 = 10
    private static let mostShown = 8

    /// Mount points that this process sees: bind mounts.
    let mountPoints: [HostPath]
    /// Processes of other mount namespaces that have it.
    let processes: [Int32]

    /// Looks now. What this user may not see is missing.
    package init(_ mount: MountEntry) {
        let table = (try? MountTable.read()) ?? []
        mountPoints = table.filter { $0.device == mount.device && $0.mountPoint != mount.mountPoint }.map(\.mountPoint)
        processes = MountTable.processesElsewhere(with: mount.device)
    }

    /// Whether nothing was found.
    package var isEmpty: Bool { mountPoints.isEmpty && processes.isEmpty }

    /// Where, for a person.
    package var words: String {
        if isEmpty { return "somewhere that this user cannot see" }
        var parts = mountPoints.prefix(Self.mostShown).map { "at \($0)" }
        let shown = processes.prefix(Self.mostShown).map { process in
            "\(process)" + (Processes.name(of: process).map { " (\($0))" } ?? "")
        }
        let more = processes.count - shown.count
        if !shown.isEmpty {
            let list = shown.joined(separator: ", ") + (more > 0 ? " and \(more) more" : "")
            parts.append("in the mount namespace of process\(processes.count > 1 ? "es" : "") \(list)")
        }
        return parts.joined(separator: ", ")
    }
}
