// The visible names of entries whose own names are not verified. A person can read them; a program cannot mistake them.

package import BackingStore
internal import SodiumKit
internal import VolumeFormat

/// Builds marked names from `.unverified-`, 12 characters of a hash of the backing name, and `-` with the name if it is
/// printable text.
///
/// The hash distinguishes two entries that decrypt to the same name. A directory without a record shows marked names. A repair
/// renames the entry to its marked name; a person can then rename it to confirm a name.
package enum UnverifiedName {
    private static let hashBytes = 9
    private static let hashLength = 12

    /// The marked name of an entry that decrypts to `name`.
    package static func bytes(for backing: EntryName, _ name: [UInt8]) -> [UInt8] {
        let hash = hash256(backing.bytes.span)
        let mark =
            ReservedName.unverifiedPrefix.bytes
            + Base64URL.encode(hash.span.extracting(0..<hashBytes))
        guard isText(name) else { return mark }
        return mark + [UInt8(ascii: "-")] + fitting(name, NameLimits.longest - mark.count - 1)
    }

    /// The original name inside a marked name; nil if it has none, or if the name is not marked.
    package static func plain(_ name: [UInt8]) -> [UInt8]? {
        let prefix = ReservedName.unverifiedPrefix.bytes
        let start = prefix.count + hashLength
        guard name.starts(with: prefix), name.count > start + 1, name[start] == UInt8(ascii: "-"),
            Base64URL.decode(Array(name[prefix.count..<start]).span) != nil
        else { return nil }
        return Array(name[(start + 1)...])
    }

    /// A path's last component and the components above it; extra slashes are ignored.
    package static func parts(_ path: [UInt8]) -> (above: [UInt8], name: [UInt8]) {
        let slash = UInt8(ascii: "/")
        let parts = path.split(separator: slash)
        return (Array(parts.dropLast().joined(separator: [slash])), Array(parts.last ?? []))
    }

    /// A path without the marks of its components.
    package static func withoutMarks(_ path: [UInt8]) -> [UInt8] {
        let slash = UInt8(ascii: "/")
        let parts = path.split(separator: slash).map { plain(Array($0)) ?? Array($0) }
        return Array(parts.joined(separator: [slash]))
    }

    /// Whether a name can be shown to a person as it is: text without control characters.
    package static func isText(_ name: [UInt8]) -> Bool {
        guard String(validating: name, as: UTF8.self) != nil else { return false }
        return !name.contains { $0 < 0x20 || $0 == 0x7F }
    }

    /// The longest prefix of whole characters that fits.
    private static func fitting(_ name: [UInt8], _ count: Int) -> [UInt8] {
        guard name.count > count else { return name }
        var end = count
        while end > 0, name[end] & 0xC0 == 0x80 { end -= 1 }
        return Array(name[..<end])
    }
}
