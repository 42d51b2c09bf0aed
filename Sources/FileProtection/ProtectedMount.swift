// Which mount holds a path, and whether it is a protected one.

import CLinuxShim
import Glibc
import HostSystem
import VolumeFormat

/// A mount of protectfs that is there.
public struct ProtectedMount: Equatable, Sendable {
    /// Where it is mounted.
    public let path: String
    /// MAJOR:MINOR, which is also what its control socket is called.
    public let device: String

    /// The protected mount that holds what a path leads to, or would: the nearest ancestor that is there decides.
    ///
    /// The path is taken as the kernel takes it: `..` behind a symbolic link is the directory above the link's target.
    public static func holding(_ path: String) -> ProtectedMount? {
        var place = path
        var status = stat()
        while unsafe stat(place, &status) != 0 {
            // What `..` below a directory that is not there will be, nobody knows yet.
            guard let (parent, name) = split(place), name != ".." else { return nil }
            place = parent
        }
        return of(status.st_dev)
    }

    /// The protected mount in whose directory a path is an entry, or would be: a link at its end is not followed.
    static func holdingEntry(_ path: String) -> ProtectedMount? {
        var status = stat()
        if unsafe lstat(path, &status) == 0 { return of(status.st_dev) }
        guard let (parent, name) = split(path), name != ".." else { return nil }
        return holding(parent)
    }

    /// The protected mount with a device number.
    static func of(_ number: dev_t) -> ProtectedMount? {
        let device = "\(pfs_major(UInt64(number))):\(pfs_minor(UInt64(number)))"
        return all().last { $0.device == device }
    }

    /// The directory of a path's last component, and that component. Nothing is resolved; nil for the root, for "." and "".
    static func split(_ path: String) -> (parent: String, name: String)? {
        let bytes = Array(path.utf8)
        let slash = UInt8(ascii: "/")
        guard let end = bytes.lastIndex(where: { $0 != slash }) else { return nil }
        let name = String(decoding: bytes[...end].split(separator: slash).last ?? [], as: UTF8.self)
        guard let before = bytes[..<end].lastIndex(of: slash) else { return name == "." ? nil : (".", name) }
        let parent = bytes[..<before].lastIndex { $0 != slash }.map { bytes[...$0] } ?? [slash]
        return (String(decoding: parent, as: UTF8.self), name)
    }

    /// Every protected mount in sight of this process, in the kernel's order.
    public static func all() -> [ProtectedMount] {
        entries().map { ProtectedMount(path: $0.mountPoint.text, device: $0.device) }
    }

    /// The kernel's table of mounts, of which only protected ones are taken; empty where it cannot be read.
    static func entries() -> [MountEntry] {
        ((try? MountTable.read()) ?? []).filter(\.isProtectfs)
    }

    /// The state of the mount at a path: its own word. Nil where nothing is mounted, or its daemon has died.
    static func state(at path: String) -> VolumeState? {
        guard let word = try? ProtectionAttribute.text(ProtectionAttribute.stateName, of: path) else { return nil }
        return VolumeState(attributeValue: word)
    }

    /// The state of this mount.
    var state: VolumeState? { Self.state(at: path) }
}

extension HostPath {
    /// The path as Foundation has it: its bytes as UTF-8.
    var text: String { String(decoding: bytes, as: UTF8.self) }
}
