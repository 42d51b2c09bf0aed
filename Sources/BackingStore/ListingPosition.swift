// Positions in a listing that fit into 31 bits where the directory allows it, for 32-bit programs (readdir(3), EOVERFLOW).

/// The positions of one directory. ext4 lists by a hash: the upper half of a position has its first 31 bits, and the lower half 32
/// more, which only entries with the same first half need.
struct ListingPositions {
    /// Where ext4's listings end. It is also the end of such a directory for lseek(2), by which it is known.
    static let hashedEnd: UInt64 = .max >> 1
    private static let longestShort: UInt64 = .max >> 33

    /// Whether the store's positions are hashes.
    let isHashed: Bool

    /// The store's position for one that `shown` gave.
    func stored(_ position: UInt64) -> UInt64 {
        guard isHashed else { return position }
        if position == Self.longestShort { return Self.hashedEnd }
        if position < Self.longestShort { return position << 32 }
        // No entry has this upper half, so those whose own is zero have it: they would look like short ones.
        let isMarked = position >> 32 == Self.longestShort && position != Self.hashedEnd
        return isMarked ? position & 0xFFFF_FFFF : position
    }

    /// The position to show for the store's position `next`, which comes after an entry at `own`.
    func shown(_ next: UInt64, after own: UInt64) -> UInt64 {
        guard isHashed else { return next }
        let (first, isUnique) = (next >> 32, next >> 32 != own >> 32)
        if isUnique || next == Self.hashedEnd { return first }
        return first == 0 ? Self.longestShort << 32 | next : next
    }
}
