// Which mount holds a path, and whether it is a protected one.

import CLinuxShim
import Glibc

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
        guard let table = try? Data(contentsOf: URL(fileURLWithPath: "/proc/self/mountinfo")) else { return [] }
        return table.split(separator: UInt8(ascii: "\n")).compactMap { line -> ProtectedMount? in
            // ID PARENT MAJOR:MINOR ROOT MOUNTPOINT OPTIONS [TAGS…] - TYPE SOURCE OPTIONS
            let fields = line.split(separator: UInt8(ascii: " "))
            guard let dash = fields.firstIndex(of: Data("-".utf8)), dash + 1 < fields.count, dash >= 6,
                fields[dash + 1].elementsEqual("fuse.protectfs".utf8)
            else { return nil }
            return ProtectedMount(
                path: unescaped(fields[4]), device: String(decoding: fields[2], as: UTF8.self))
        }
    }

    /// The table writes blanks and backslashes as \ooo.
    private static func unescaped(_ field: Data) -> String {
        var bytes: [UInt8] = []
        var rest = Array(field)[...]
        while let byte = rest.popFirst() {
            let digits = rest.prefix(3).map { Int($0) - 48 }
            if byte == UInt8(ascii: "\\"), digits.count == 3, digits.allSatisfy({ 0..<8 ~= $0 }), digits[0] < 4 {
                bytes.append(UInt8(digits[0] * 64 + digits[1] * 8 + digits[2]))
                rest = rest.dropFirst(3)
            } else {
                bytes.append(byte)
            }
        }
        return String(decoding: bytes, as: UTF8.self)
    }
}
