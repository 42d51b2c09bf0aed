// The entries of a listing.

internal import BackingStore

/// The entries of a listing that come with their node and attributes.
package enum ListedAttributes: Sendable {
    case none
    /// Directories and symbolic links, and what cannot be told from one. Also names that do not tell their entry, because to
    /// look one up later takes a listing.
    case ofDirectoriesAndLinks
    case all
}

/// One entry of a listing.
package struct ListedEntry: Sendable {
    /// Its name as programs see it.
    package let name: [UInt8]
    /// Its inode number.
    package let inode: UInt64
    /// Its kind; nil if the store did not tell it.
    package let kind: NodeKind?
    /// The position from which a later call continues after this entry.
    package let next: UInt64
    /// Node and attributes if they were wanted, with one lookup counted. Nil for `.` and `..`, and if they cannot be read.
    package let entry: Entry?

    static func dot(_ name: String, _ inode: UInt64, _ next: UInt64) -> ListedEntry {
        ListedEntry(name: Array(name.utf8), inode: inode, kind: .directory, next: next, entry: nil)
    }
}

/// An entry of the store's listing that waits for the position of the next one.
struct HeldEntry {
    var object = ListedObject.itself
    var next: UInt64 = 0
    /// Its name as programs see it; has no meaning for `.` and `..`.
    var name: [UInt8] = []
    var isUndecryptable = false
}
