// Mount points that are known and not mounted: after a restart, or after a crash of the daemon.

package import CommandSupport
import CLibrary
package import HostSystem

/// What the last mount or check of a store has written into its lock file: paths and words, divided by bytes 0.
///
/// It stays there when the process ends. So after a restart this machine knows what was mounted where.
struct MountRecord {
    /// The store's directory.
    var store: HostPath?
    /// Where it was mounted last, unless somebody has unmounted it on purpose since.
    var mountPoint: HostPath?
    /// The words of `-o` with which the agent may mount it there again; nil if something else does, as a unit.
    var options: String?

    /// Reads a lock file. What is no path is left out.
    init(read file: borrowing Descriptor) {
        let bytes = (try? file.readAll(limit: 6 * Int(PATH_MAX))) ?? []
        let fields = bytes.split(separator: 0, maxSplits: 2, omittingEmptySubsequences: false)
        func path(_ index: Int) -> HostPath? {
            guard index < fields.count, fields[index].first == UInt8(ascii: "/") else { return nil }
            return HostPath(bytes: Array(fields[index]))
        }
        (store, mountPoint) = (path(0), path(1))
        options = fields.count == 3 && mountPoint != nil ? String(validating: fields[2], as: UTF8.self) : nil
    }

    /// Writes it, or as much of it as is possible.
    func write(to path: HostPath) {
        guard let file = try? Descriptor(opening: path, O_WRONLY | O_TRUNC | O_NOFOLLOW | O_NONBLOCK) else { return }
        var bytes = store?.bytes ?? []
        if let mountPoint { bytes += [0] + mountPoint.bytes }
        if mountPoint != nil, let options { bytes += [0] + Array(options.utf8) }
        try? file.write(bytes.span)
    }
}

/// A volume that was mounted when its last daemon ended, and is not mounted now.
package struct KnownMount {
    /// The volume's directory.
    package let volume: HostPath
    /// The directory where it was mounted. Programs may save plaintext in it, if they can.
    package let mountPoint: HostPath
    /// The words of `-o` that it was mounted with; nil if the agent is not to mount it.
    package let options: String?

    /// All of this user whose directories exist, by mount point.
    package static func all() -> [KnownMount] {
        MountClaim.leftRecords().compactMap { record in
            guard let volume = record.store, let mountPoint = record.mountPoint, MountLookup.isVolume(volume),
                let status = try? FileStatus.read(mountPoint), status.st_mode & S_IFMT == S_IFDIR,
                (try? MountTable.entry(at: mountPoint))?.isProtectfs != true
            else { return nil }
            return KnownMount(volume: volume, mountPoint: mountPoint, options: record.options)
        }.sorted { $0.mountPoint.description < $1.mountPoint.description }
    }

    /// The command that mounts it again.
    package var command: String { "protectfs mount \(volume.word) \(mountPoint.word)" }

    /// The mount at `path`; without one, the only mount of this user.
    package static func mounted(atOrOnly path: HostPath?) throws(CommandFailure) -> MountEntry {
        if let path { return try mounted(at: path) }
        // One volume can be seen at several places.
        var own: [MountEntry] = []
        for entry in try MountLookup.knownOwn() where entry.owner == geteuid() {
            if !own.contains(where: { $0.device == entry.device }) { own.append(entry) }
        }
        // One whose daemon has died keeps nobody from the one that lives.
        if own.count > 1, case let living = own.filter({ !MountLookup.isDead($0) }), !living.isEmpty { own = living }
        guard let first = own.first else {
            guard let known = all().first else { throw .init(.notMounted, "no volume is mounted") }
            throw .init(.notMounted, "no volume is mounted; to mount the one that was: \(known.command)")
        }
        guard own.count == 1 else {
            let places = own.map(\.mountPoint.word).joined(last: "and")
            throw .init(.usage, "several volumes are mounted, so name the mount point: \(places)")
        }
        return first
    }

    /// The mount at a path. If nothing is mounted there, and something was, the message says how to mount it.
    package static func mounted(at path: HostPath) throws(CommandFailure) -> MountEntry {
        do throws(CommandFailure) { return try MountLookup.at(path) } catch {
            guard error.code == .notMounted, let resolved = try? path.resolved(),
                let known = all().first(where: { $0.mountPoint == resolved })
            else { throw error }
            throw .init(
                .notMounted, "\(path): the volume \(known.volume) is not mounted there now; mount it: \(known.command)")
        }
    }
}
