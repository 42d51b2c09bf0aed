// Finds the protected mount that contains a path.

import CLibrary
import CLinuxShim
import HostSystem
import VolumeFormat

/// A mounted protectfs volume.
public struct ProtectedMount: Equatable, Sendable {
    /// The absolute path of the mount point.
    public let path: String
    /// The device numbers as MAJOR:MINOR, which is also the name of the control socket.
    public let device: String

    /// The protected mount that contains the target of a path, or nil. If the target does not exist, its nearest
    /// existing ancestor decides.
    ///
    /// The path is resolved as the kernel does it (path_resolution(7)): `..` after a symbolic link is the parent of the
    /// link's target.
    public static func holding(_ path: String) -> ProtectedMount? {
        var place = path
        var status = stat()
        while unsafe stat(place, &status) != 0 {
            // The target of `..` below a missing directory is not known yet.
            guard let (parent, name) = split(place), name != ".." else { return nil }
            place = parent
        }
        return of(status.st_dev)
    }

    /// The protected mount whose directory contains the entry of a path, or would contain it. A link at the end is not
    /// followed.
    static func holdingEntry(_ path: String) -> ProtectedMount? {
        var status = stat()
        if unsafe lstat(path, &status) == 0 { return of(status.st_dev) }
        guard let (parent, name) = split(path), name != ".." else { return nil }
        return holding(parent)
    }

    /// The protected mount with a device number.
    static func of(_ number: dev_t) -> ProtectedMount? {
        let entry = ((try? MountTable.entries(of: text(number))) ?? []).last(where: \.isProtectfs)
        return entry.map { ProtectedMount(path: $0.mountPoint.text, device: $0.device) }
    }

    /// Whether this mount has a device number.
    func has(_ number: dev_t) -> Bool { device == Self.text(number) }

    private static func text(_ number: dev_t) -> String {
        "\(pfs_major(UInt64(number))):\(pfs_minor(UInt64(number)))"
    }

    /// The directory of a path's last component, and that component. Resolves nothing. Nil for the root, for "." and
    /// for "".
    static func split(_ path: String) -> (parent: String, name: String)? {
        let bytes = Array(path.utf8)
        let slash = UInt8(ascii: "/")
        guard let end = bytes.lastIndex(where: { $0 != slash }) else { return nil }
        let name = String(decoding: bytes[...end].split(separator: slash).last ?? [], as: UTF8.self)
        guard let before = bytes[..<end].lastIndex(of: slash) else { return name == "." ? nil : (".", name) }
        let parent = bytes[..<before].lastIndex { $0 != slash }.map { bytes[...$0] } ?? [slash]
        return (String(decoding: parent, as: UTF8.self), name)
    }

    /// Every protected mount that this process sees, in the order of the kernel's table (proc_pid_mountinfo(5)).
    public static func all() -> [ProtectedMount] {
        entries().map { ProtectedMount(path: $0.mountPoint.text, device: $0.device) }
    }

    /// The protected mounts that belong to this process's user, one for each volume: a bind mount shows the same volume again.
    package static func own() -> [ProtectedMount] {
        var found: [ProtectedMount] = []
        for entry in entries() where entry.owner == geteuid() {
            found.removeAll { $0.device == entry.device }
            found.append(ProtectedMount(path: entry.mountPoint.text, device: entry.device))
        }
        return found
    }

    /// The protected mounts in the kernel's table; empty if it cannot be read.
    static func entries() -> [MountEntry] {
        ((try? MountTable.read()) ?? []).filter(\.isProtectfs)
    }

    /// The state of the mount at a path, from the mount itself; nil if nothing is mounted there or the daemon has died.
    static func state(at path: String) -> VolumeState? {
        guard let word = try? ProtectionAttribute.text(ProtectionAttribute.stateName, of: path) else { return nil }
        return VolumeState(attributeValue: word)
    }

    /// The state of this mount.
    var state: VolumeState? { Self.state(at: path) }

    /// The state that a class obeys on this mount, like `state`.
    func state(of protectionClass: ProtectionClass) -> VolumeState? {
        guard protectionClass == .completeWhenUserInactive else { return state }
        let word = try? ProtectionAttribute.text("\(AttributeName.inactiveState)", of: path)
        return word.flatMap { VolumeState(attributeValue: $0) }
    }
}

extension HostPath {
    /// The path as a string for Foundation, with its bytes decoded as UTF-8.
    var text: String { String(decoding: bytes, as: UTF8.self) }
}
