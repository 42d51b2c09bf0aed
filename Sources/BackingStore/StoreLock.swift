// Locks on a file of the store, which other machines see. They make `-o shared` possible.

/// How a range is locked (fcntl(2)).
public enum StoreLock: Int32, Sendable {
    /// Not locked.
    case none = 0
    /// Several owners can hold it.
    case shared = 1
    /// One owner holds it.
    case exclusive = 2
}

/// A lock of another owner.
public struct ForeignLock: Sendable {
    /// Whether other owners may share it.
    public var kind: StoreLock
    /// The locked bytes.
    public var range: ClosedRange<UInt64>
}

/// The bytes of a store's file that are locked, and what each lock means. Locks need not be inside of the file.
public enum LockRange {
    /// The last offset of a file.
    public static let end = UInt64(Int64.max)
    /// The content: its length, its header and its pages. Held for one operation.
    public static let content = end...end
    /// A program's flock(2). It is not the store's flock(2), which network file systems treat as a lock of every byte, so that it
    /// would conflict with the other two.
    public static let wholeFile = end - 1...end - 1
    /// The last byte that a program can lock with fcntl(2).
    public static let lastOfPrograms = end - 2

    /// A program's range of bytes, without those of the other two.
    public static func program(_ first: UInt64, _ last: UInt64) -> ClosedRange<UInt64> {
        min(first, lastOfPrograms)...min(max(first, last), lastOfPrograms)
    }
}
