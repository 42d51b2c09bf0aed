// The words after `-o`: which of them are ours, which the kernel's, and which nobody's.

package import ProtectedVolume
internal import VolumeFormat

/// A word of `-o` that cannot be used.
package enum MountOptionError: Error, Equatable, Sendable {
    /// Nobody knows it.
    case unknown(String)
    /// It needs a value, or its value makes no sense.
    case badValue(option: String, value: String, expected: String)
}

/// What `-o` asked for.
package struct MountOptions: Sendable, Equatable {
    /// What the volume has to know, handed on as it is.
    package var volume = VolumeOptions()
    /// Other users may see the mount.
    package var allowsOther = false
    /// Lock after so many seconds without use of protected files.
    package var idleSeconds: UInt64?
    /// Shown as the owner of everything.
    package var user: UInt32?
    /// Shown as the group of everything.
    package var group: UInt32?
    /// Permission bits taken from everything.
    package var mask: UInt32?
    /// What the kernel is given as it stands: `noatime`, `nodev` …
    package var kernelOptions: [String] = []
    /// The log may hold names of files and programs. Not an option of `-o`: fstab is not the place to ask for it.
    package var logsNames = false

    /// Nothing asked for.
    package init() {}

    /// Words that go to the kernel unchanged.
    private static let kernelWords: Set<String> = [
        "noatime", "atime", "nodiratime", "relatime", "strictatime", "nodev", "dev", "nosuid", "suid", "noexec", "exec",
        "sync", "dirsync",
    ]
    /// Words of fstab that mean nothing to a mounted file system.
    private static let ignoredWords: Set<String> = [
        "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail", "_netdev",
        "default_permissions", "rw", "lazytime", "nolazytime", "async", "quiet", "noiversion", "silent", "loud",
    ]

    /// Takes lists as they follow each `-o`; later words win.
    package static func parse(_ lists: [String]) throws(MountOptionError) -> MountOptions {
        var result = MountOptions()
        for list in lists {
            for word in list.split(separator: ",") { try result.take(String(word)) }
        }
        return result
    }

    private mutating func take(_ word: String) throws(MountOptionError) {
        if let separator = word.firstIndex(of: "=") {
            let name = String(word[..<separator])
            try take(name, value: String(word[word.index(after: separator)...]))
            return
        }
        switch word {
        case "ro": volume.isReadOnly = true
        case "rw": volume.isReadOnly = false
        case "allow_other": allowsOther = true
        case "shared": volume.isShared = true
        case "strict": volume.isStrict = true
        case "recover": volume.recovers = true
        case "no_family_class": volume.keepsFamilyClass = false
        case "default_class", "idle", "uid", "gid", "umask":
            throw .badValue(option: word, value: "", expected: "a value after =")
        default:
            if Self.kernelWords.contains(word) {
                kernelOptions.append(word)
            } else if !Self.ignoredWords.contains(word) && !word.hasPrefix("x-") {
                throw .unknown(word)
            }
        }
    }

    private mutating func take(_ name: String, value: String) throws(MountOptionError) {
        switch name {
        case "default_class":
            guard let known = ProtectionClass(name: value) else {
                throw .badValue(option: name, value: value, expected: "a protection class")
            }
            volume.defaultClass = known
        case "idle":
            guard let seconds = Self.seconds(value) else {
                throw .badValue(option: name, value: value, expected: "a duration such as 300, 90s, 10m or 2h")
            }
            idleSeconds = seconds == 0 ? nil : seconds
        case "uid":
            user = try Self.number(name, value)
        case "gid":
            group = try Self.number(name, value)
        case "umask":
            guard let bits = UInt32(value, radix: 8), bits <= 0o777 else {
                throw .badValue(option: name, value: value, expected: "octal permission bits")
            }
            mask = bits
        default:
            if !name.hasPrefix("x-") && name != "comment" { throw .unknown("\(name)=\(value)") }
        }
    }

    private static func number(_ name: String, _ value: String) throws(MountOptionError) -> UInt32 {
        guard let number = UInt32(value), number != UInt32.max else {
            throw .badValue(option: name, value: value, expected: "a number")
        }
        return number
    }

    /// `90`, `90s`, `10m`, `2h`, `1d`, or several of these in a row (`1h30m`); nil where it is none.
    static func seconds(_ text: String) -> UInt64? {
        var total: UInt64 = 0
        var number: UInt64?
        for character in text.utf8 {
            if (48...57).contains(character) {
                let (product, overflow) = (number ?? 0).multipliedReportingOverflow(by: 10)
                let (sum, overflowToo) = product.addingReportingOverflow(UInt64(character - 48))
                if overflow || overflowToo { return nil }
                number = sum
                continue
            }
            let units: [UInt8: UInt64] = [
                UInt8(ascii: "s"): 1, UInt8(ascii: "m"): 60, UInt8(ascii: "h"): 3600, UInt8(ascii: "d"): 86400,
            ]
            guard let count = number, let unit = units[character] else { return nil }
            let (product, overflow) = count.multipliedReportingOverflow(by: unit)
            let (sum, overflowToo) = total.addingReportingOverflow(product)
            if overflow || overflowToo { return nil }
            total = sum
            number = nil
        }
        if let number {
            // A bare number counts seconds, but only alone.
            return total == 0 && !text.isEmpty ? number : nil
        }
        return text.isEmpty ? nil : total
    }

    /// The words for libfuse: what the mount shows as its source and type, and what the kernel is to check.
    func sessionOptions(source: String) -> [String] {
        var escaped = ""
        for character in source {
            if character == "," || character == "\\" { escaped.append("\\") }
            escaped.append(character)
        }
        var words = ["fsname=\(escaped)", "subtype=protectfs", "default_permissions"]
        if volume.isReadOnly { words.append("ro") }
        if allowsOther { words.append("allow_other") }
        return words + kernelOptions
    }
}
