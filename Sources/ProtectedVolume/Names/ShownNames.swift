// The entries of one directory that are shown under names made from their backing names.

internal import BackingStore
internal import VolumeFormat

/// Such a name does not tell the backing name, so it takes a listing to find the entry. The last listing is remembered, and each
/// of its entries is found at once. What it has must still be looked for in the store, and what it does not have may be new.
struct ShownNames: Sendable {
    /// Of the first that are listed.
    private static let most = 65_536

    /// The directory's node, by serial number.
    private let directory: UInt64?
    private var entries: [[UInt8]: EntryName] = [:]

    init(of directory: UInt64? = nil) { self.directory = directory }

    func entry(_ shown: [UInt8], in directory: UInt64) -> EntryName? {
        self.directory == directory ? entries[shown] : nil
    }

    mutating func add(_ shown: [UInt8], _ entry: EntryName) {
        if entries.count < Self.most { entries[shown] = entry }
    }
}
