// The entries of one directory that are shown under names made from their backing names.

internal import BackingStore
internal import VolumeFormat

/// Such a name does not tell the backing name, so it takes a listing to find the entry. The last listings are remembered, and each
/// of their entries is found at once. What they have must still be looked for in the store, and what they do not have may be new.
struct ShownNames: Sendable {
    /// Of the first that are listed, and of all directories together.
    static let most = 65_536

    private var entries: [[UInt8]: EntryName] = [:]
    /// Whether all of the directory's are here.
    private(set) var isWhole = true

    var count: Int { entries.count }

    func entry(_ shown: [UInt8]) -> EntryName? { entries[shown] }

    mutating func add(_ shown: [UInt8], _ entry: EntryName) {
        if entries.count < Self.most { entries[shown] = entry } else { isWhole = false }
    }
}
