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
    public static func holding(_ path: String) -> ProtectedMount? {
        var place = URL(fileURLWithPath: path).standardizedFileURL.path
        var status = stat()
        while unsafe stat(place, &status) != 0 {
            guard place != "/" else { return nil }
            place = (place as NSString).deletingLastPathComponent
        }
        let device = "\(pfs_major(UInt64(status.st_dev))):\(pfs_minor(UInt64(status.st_dev)))"
        return all().last { $0.device == device }
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
