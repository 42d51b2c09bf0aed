// Finds protectfs mounts by a path that the user typed, without touching a mount whose daemon is dead.

import CLibrary
import Control
package import HostSystem
import VolumeFormat

/// Lookups in the mount table.
package enum MountLookup {
    /// All mounts of this program. Empty if the table cannot be read.
    package static func all() -> [MountEntry] { (try? known()) ?? [] }

    /// As `all`, for commands that must not take a table that cannot be read for an empty one.
    package static func known() throws(CommandFailure) -> [MountEntry] {
        do throws(SystemError) { return try MountTable.read().filter(\.isProtectfs) } catch {
            throw .init(.failure, "the table of mounts cannot be read: \(error.reason)")
        }
    }

    /// The mounts that belong to this user; all for root.
    package static func knownOwn() throws(CommandFailure) -> [MountEntry] {
        try known().filter { Credentials.isRoot || $0.owner == geteuid() }
    }

    /// The mounts of the volume at `path` that count as such (`StoreProof`): any user can make a mount that names it.
    package static func of(volume path: HostPath) -> [MountEntry] {
        let wanted = (try? path.resolved()) ?? path
        // Before the sources are looked at: a stranger's may be on a file system that does not answer.
        let trusted = StoreProof.trusted(all(), of: wanted)
        return StoreProof.counting(trusted.filter { ((try? $0.source.resolved()) ?? $0.source) == wanted }, of: wanted)
    }

    /// The mount at exactly this path.
    package static func at(_ path: HostPath) throws(CommandFailure) -> MountEntry {
        let known = try candidates(path)
        let table = try self.known()
        for candidate in known {
            if let entry = table.last(where: { $0.mountPoint == candidate }) { return entry }
        }
        // Below an automount, a look into the directory would mount.
        let isAutomount = ((try? MountTable.read()) ?? []).contains {
            $0.type == "autofs" && known.contains($0.mountPoint)
        }
        if !isAutomount, isVolume(path) {
            let place = of(volume: path).first.map { "mounted at \($0.mountPoint)" } ?? "not mounted"
            throw .init(
                .notMounted, "\(path): this is the volume's own directory, and not a mount point; it is \(place)")
        }
        // By the text alone, because the mount may be dead.
        let around = table.filter { entry in known.contains { $0.isInside(entry.mountPoint) } }
        if let entry = around.max(by: { $0.mountPoint.bytes.count < $1.mountPoint.bytes.count }) {
            throw .init(
                .notMounted, "\(path): not a mount point, but inside a volume that is mounted at \(entry.mountPoint)")
        }
        throw .init(
            .notMounted,
            "\(path): no protectfs volume is mounted there; protectfs status without a mount point shows all mounts")
    }

    /// Whether a directory has a keybag, which is not read.
    package static func isVolume(_ path: HostPath) -> Bool {
        (try? FileStatus.read(path.appending("\(ReservedName.keybag)"))) != nil
    }

    /// The mount that contains a path, and the path below the root of its file system.
    package static func containing(_ path: HostPath) throws(CommandFailure) -> (mount: MountEntry, below: HostPath) {
        let resolved: HostPath
        do throws(SystemError) {
            // The last component may be a symbolic link, which has no class of its own.
            resolved = try path.resolved()
        } catch {
            throw .init(error.code == ENOTCONN ? .notMounted : .failure, "\(path): \(error.reason)")
        }
        guard let entry = try? MountTable.entry(containing: resolved), entry.isProtectfs else {
            throw .init(.notMounted, "\(path): not in a mounted protectfs volume")
        }
        return (entry, below(entry, resolved))
    }

    /// A path on a mount, from the root of its file system, without a leading slash.
    private static func below(_ entry: MountEntry, _ path: HostPath) -> HostPath {
        let rest = path.bytes.dropFirst(entry.mountPoint.bytes.count)
        // A bind mount shows a directory of the file system.
        return HostPath(components: HostPath(bytes: entry.root.bytes + rest).components)
    }

    /// A directory on a mount, in which files are found without another look at the mount table.
    package struct Directory {
        /// Where it is mounted, and by whom.
        package let mount: MountEntry
        /// The directory's path below the root of the file system.
        package let below: HostPath
        /// The names in the directory on which something else is mounted.
        package let covered: Set<HostPath>

        /// The directory at `path`, which must exist.
        package init(_ path: HostPath) throws(CommandFailure) {
            (mount, below) = try MountLookup.containing(path)
            guard let resolved = try? path.resolved(), let table = try? MountTable.read() else {
                throw .init(.failure, "\(path): the mount table cannot be read")
            }
            covered = Set(table.map(\.mountPoint).filter { $0.parent == resolved }.map(\.lastComponent))
        }
    }

    /// The mount that contains an object, and its path below the root of the file system. A symbolic link on a mount is the
    /// object itself. The object may be missing, its directory may not.
    package static func containingObject(_ path: HostPath) throws(CommandFailure) -> (
        mount: MountEntry, below: HostPath
    ) {
        let object: HostPath
        do throws(SystemError) {
            object = try path.resolvedObject()
        } catch {
            throw .init(error.code == ENOTCONN ? .notMounted : .failure, "\(path): \(error.reason)")
        }
        if let entry = try? MountTable.entry(containing: object), entry.isProtectfs {
            return (entry, below(entry, object))
        }
        // A link elsewhere that leads to a mount.
        guard let target = try? path.resolved(), let entry = try? MountTable.entry(containing: target),
            entry.isProtectfs
        else { throw .init(.notMounted, "\(path): not in a mounted protectfs volume") }
        return (entry, below(entry, target))
    }

    /// The mount whose store contains an object, and the object's path from the store's root.
    ///
    /// A relative path that does not exist here is looked for in the stores.
    package static func storing(_ path: HostPath) throws(CommandFailure) -> (mount: MountEntry, below: HostPath) {
        let mounts = all().filter { $0.root == HostPath("/") }.map { mount in
            // Another user's source may be on a file system that never answers, so only its text counts.
            (
                mount,
                StoreProof.isCertain(mount) ? (try? mount.source.resolved()) ?? mount.source : mount.source.simplified
            )
        }
        let object = try existing(path, orIn: mounts.filter { StoreProof.isCertain($0.0) }.map(\.1))
        // A link elsewhere may lead to a store.
        for candidate in [object, try? object.resolved()].compactMap({ $0 }) {
            var best: (mount: MountEntry, store: HostPath)?
            for (mount, store) in mounts where candidate.isInside(store) {
                guard store.bytes.count >= best?.store.bytes.count ?? 0,
                    !StoreProof.counting([mount], of: store).isEmpty
                else { continue }
                best = (mount, store)
            }
            guard let best else { continue }
            let below = HostPath(bytes: candidate.bytes.dropFirst(best.store.bytes.count)).components
            return (best.mount, HostPath(components: below))
        }
        throw .init(.notMounted, "\(path): not in the directory of a mounted protectfs volume")
    }

    /// The absolute path of an object that exists: from the current directory, or in one of the stores.
    private static func existing(_ path: HostPath, orIn stores: [HostPath]) throws(CommandFailure) -> HostPath {
        func find(_ path: HostPath) throws(SystemError) -> HostPath {
            let object = try path.resolvedObject()
            _ = try FileStatus.read(object)
            return object
        }
        do throws(SystemError) {
            return try find(path)
        } catch {
            let others = path.isAbsolute || error.code != ENOENT ? [] : stores
            let found = Set(others.compactMap { try? find($0.appending(bytes: path.bytes)) })
            if let object = found.first, found.count == 1 { return object }
            let reason = found.isEmpty ? error.reason : "it is in several volumes; give the whole path"
            throw .init(.failure, "\(path): \(reason)")
        }
    }

    /// The absolute forms that a path can have in the table: first its text, then with its parent resolved.
    package static func candidates(_ path: HostPath) throws(CommandFailure) -> [HostPath] {
        do throws(SystemError) {
            let absolute = try path.absolute().simplified
            var result = [absolute]
            if let parent = try? absolute.parent.resolved() {
                result.append(parent.appending(bytes: absolute.lastComponent.bytes))
            }
            if let whole = try? path.resolved() { result.append(whole) }
            return result
        } catch {
            throw ErrorMessages.system(error)
        }
    }

    /// How long a look at another user's mount may take, in seconds.
    private static let longestLook: Int32 = 5

    /// As `isDead`, for a mount of any user. Another user's file system may never answer, and a process that waits for it cannot
    /// even end. So another process looks (`status --is-dead`), and is left behind if it does not end.
    package static func isDeadForSure(_ entry: MountEntry) -> Bool {
        if StoreProof.isCertain(entry) { return isDead(entry) }
        let arguments = ["protectfs", "status", "--is-dead", "--"].map { Array($0.utf8) } + [entry.mountPoint.bytes]
        // It must not keep what reads the output of this command waiting.
        guard let nothing = try? Descriptor(opening: HostPath("/dev/null"), O_RDWR),
            let child = try? ChildProcess.start(
                HostPath("/proc/self/exe"), arguments, descriptors: (0...2).map { ($0, nothing.number) },
                hasTerminal: false),
            let watch = try? ProcessWatch(child.id)
        else { return false }
        guard watch.waitForEnd(seconds: longestLook) else {
            try? watch.send(SIGKILL)
            return false
        }
        return (try? child.wait()) == .exited(0)
    }

    /// Whether the mount's daemon has died. The kernel then answers uncached requests with ENOTCONN.
    package static func isDead(_ entry: MountEntry) -> Bool {
        var statistics = statvfs()
        return unsafe entry.mountPoint.withCString { unsafe statvfs($0, &statistics) } != 0
            && (errno == ENOTCONN || errno == ECONNABORTED)
    }
}
