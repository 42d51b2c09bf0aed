// Names that another program has made from an encrypted name, above all a sync program for the second version of a file.

package import BackingStore
internal import VolumeFormat

/// Finds the encrypted name inside a longer one: `NAME (conflicted copy 2026-01-31)`, `NAME.sync-conflict-20260131-120000-ABCDEFG`,
/// `NAME_conflict-20260131-120000`, `NAME-COMPUTER`.
///
/// Only the key tells which beginning is a name: an encoding has hyphens and underscores too. So each beginning that can be one is
/// tried, and one that verifies is proven. The words that follow it do not count.
package enum ConflictName {
    /// The most beginnings that are tried.
    private static let most = 64
    /// The characters that programs put before what they add.
    private static let separators = Array(" ._-(~#".utf8)

    /// The beginnings of a name that can be an encrypted name, the longest first.
    package static func originals(of name: EntryName) -> [EntryName] {
        let bytes = Array(name.bytes)
        let ends = bytes.indices.reversed().filter { separators.contains(bytes[$0]) }
        return ends.lazy.compactMap { EntryName(Array(bytes[..<$0])) }.filter { start in
            switch ReservedName.kind(of: start.bytes.span) {
            case .long, .encoded: true
            default: false
            }
        }.prefix(most).map { $0 }
    }
}
