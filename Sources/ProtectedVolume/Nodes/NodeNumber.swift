// The numbers by which the kernel, and file handles, know nodes.

internal import BackingStore

/// A node's number and generation. A file handle (name_to_handle_at(2)) consists of both, 64 and 32 bits.
///
/// A *lasting* number is made from the backing inode's number and time of making. So it is the same after the kernel has
/// forgotten the node, and in later mounts; an inode that reuses the number of a removed one gets another. Other numbers
/// have the highest bit. They are counted, and last as long as the node: on stores that keep no time of making, for inode
/// numbers above 2⁴⁸, and while another node has the lasting number, for example an unlinked one.
struct NodeNumber: Equatable, Sendable {
    let number: UInt64
    let generation: UInt32

    private static let inodeBits = 48
    private static let largestInode: UInt64 = 1 << inodeBits - 1
    private static let counted: UInt64 = 1 << 63
    /// The root's number (FUSE_ROOT_ID).
    static let root = NodeNumber(number: 1, generation: 0)

    private init(number: UInt64, generation: UInt32) {
        self.number = number
        self.generation = generation
    }

    /// The number of the `serial`th node of a mount.
    init(serial: UInt64, ofMount generation: UInt32) {
        self.init(number: Self.counted | serial, generation: generation)
    }

    /// The lasting number of an object on the file system `device`; nil if it has none.
    init?(lasting status: Status, on device: UInt64) {
        guard let born = status.born, status.device == device, status.inode > 1, status.inode <= Self.largestInode
        else { return nil }
        let mixed = Self.mix(UInt64(bitPattern: born.seconds) &* 1_000_000_000 &+ UInt64(bitPattern: born.nanoseconds))
        self.init(
            number: ((mixed >> 32) << Self.inodeBits) & ~Self.counted | status.inode,
            generation: UInt32(truncatingIfNeeded: mixed))
    }

    /// The backing inode's number in a lasting number; nil for others.
    static func inode(ofLasting number: UInt64) -> UInt64? {
        guard number & counted == 0, number > root.number else { return nil }
        return number & largestInode
    }

    /// Spreads a number over 64 bits. Neighbouring times must give numbers that differ in the bits that are kept.
    private static func mix(_ number: UInt64) -> UInt64 {
        let high = (number ^ (number >> 31)) &* 0x9E37_79B9_7F4A_7C15
        return (high ^ (high >> 29)) &* 0xD6E8_FEB8_6659_FD93
    }
}
