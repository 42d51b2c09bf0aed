// The attributes of an object, as stat(2) reports them.

package import BackingStore
internal import VolumeFormat

/// An object's attributes. All except the size come from the backing object.
package struct Attributes: Sendable, Hashable {
    /// Inode number.
    package var inode: UInt64
    /// The kind of object.
    package var kind: NodeKind
    /// Permission bits (12 bits).
    package var mode: UInt32
    /// Number of hard links.
    package var links: UInt64
    /// The user's number, as the store has it.
    package var owner: UInt32
    /// The group's number, as the store has it.
    package var group: UInt32
    /// Device number of a device file.
    package var device: UInt64
    /// Size in bytes, of the content.
    package var size: UInt64
    /// Space used in the backing store, in units of 512 bytes.
    package var blocks: UInt64
    /// Preferred unit of input and output.
    package var blockSize: UInt64
    /// Last access.
    package var accessed: Timestamp
    /// Last change of the content.
    package var modified: Timestamp
    /// Last change of the inode.
    package var changed: Timestamp

    /// The smallest number of blocks reported for a regular file, enough for page 0. If a file has 0 blocks, tar -S, cp and
    /// others treat it as one hole and read nothing. But its content may be only in the kernel's page cache, which we cannot
    /// see. Some stores also count a block only after they have written it.
    private static let leastBlocks = UInt64(PageGeometry.pageSize / 512)

    /// Takes the attributes from the backing object's status. The size is computed, unless it is known.
    init(_ status: Status, kind: NodeKind, geometry: PageGeometry, knownSize: UInt64?) {
        inode = status.inode
        self.kind = kind
        mode = status.mode & 0o7777
        links = status.links
        owner = status.owner
        group = status.group
        device = status.specialDevice
        blocks = kind == .file ? max(status.blocks, Self.leastBlocks) : status.blocks
        blockSize = status.blockSize
        accessed = status.accessed
        modified = status.modified
        changed = status.changed
        switch kind {
        case .file: size = knownSize ?? geometry.size(backingLength: status.size)
        case .symlink: size = knownSize ?? NameCipher.targetLength(stored: status.size)
        default: size = status.size
        }
    }
}

/// A known object whose name was changed or removed.
package struct ChangedName: Sendable {
    /// The object.
    package let node: Node
    /// A file's attributes from just before the change.
    package let attributes: Attributes?
}

/// The changes of one `setattr`; nil and `.keep` change nothing.
package struct AttributeChange: Sendable {
    /// Permission bits.
    package var mode: UInt32?
    /// The user's number, as the store has it.
    package var owner: UInt32?
    /// The group's number, as the store has it.
    package var group: UInt32?
    /// Size in bytes.
    package var size: UInt64?
    /// Last access.
    package var accessed = TimeChange.keep
    /// Last change of the content.
    package var modified = TimeChange.keep
    /// Whether the size is set through a handle (ftruncate).
    package var isThroughHandle = false
    /// Whether no program asked for it: the kernel sends the modification time that it keeps, which the store often has.
    package var isKernelsOwn = false

    /// Changes nothing.
    package init() {}
}
