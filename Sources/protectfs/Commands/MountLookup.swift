// Finds protectfs mounts by a path that the user typed, without touching a mount whose daemon is dead.

import Glibc
import HostSystem

/// Lookups in the mount table.
enum MountLookup {
    /// All mounts of this program. Empty if the table cannot be read.
    static func all() -> [MountEntry] { ((try? MountTable.read()) ?? []).filter(\.isProtectfs) }

    /// The mounts of the volume at `path`.
    static func of(volume path: HostPath) -> [MountEntry] {
        let wanted = (try? path.resolved()) ?? path
        return all().filter { ((try? $0.source.resolved()) ?? $0.source) == wanted }
    }

    /// The mount at exactly this path.
    static func at(_ path: HostPath) throws(CommandFailure) -> MountEntry {
        let known = try candidates(path)
        let table = all()
        for candidate in known {
            if let entry = table.last(where: { $0.mountPoint == candidate }) { return entry }
        }
        throw .init(
            .notMounted,
            "\(path): no protectfs volume is mounted there; protectfs status without a mount point shows all mounts")
    }

    /// The mount that contains a path, and the path below its root.
    static func containing(_ path: HostPath) throws(CommandFailure) -> (mount: MountEntry, below: HostPath) {
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
        let rest = resolved.bytes.dropFirst(entry.mountPoint.bytes.count).drop { $0 == UInt8(ascii: "/") }
        return (entry, HostPath(bytes: rest))
    }

    /// The absolute forms that a path can have in the table: first its text, then with its parent resolved.
    private static func candidates(_ path: HostPath) throws(CommandFailure) -> [HostPath] {
        do throws(SystemError) {
            let absolute = simplified(try path.absolute())
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

    /// Without `.`, `..` (by text) and doubled slashes.
    static func simplified(_ path: HostPath) -> HostPath {
        var parts: [ArraySlice<UInt8>] = []
        for part in path.bytes.split(separator: UInt8(ascii: "/")) {
            if part.elementsEqual(".".utf8) { continue }
            if part.elementsEqual("..".utf8) { _ = parts.popLast() } else { parts.append(part) }
        }
        return HostPath(bytes: [UInt8(ascii: "/")] + parts.joined(separator: [UInt8(ascii: "/")]))
    }

    /// Whether the mount's daemon has died. The kernel then answers uncached requests with ENOTCONN.
    static func isDead(_ entry: MountEntry) -> Bool {
        var statistics = statvfs()
        return unsafe entry.mountPoint.withCString { unsafe statvfs($0, &statistics) } != 0
            && (errno == ENOTCONN || errno == ECONNABORTED)
    }
}
