// The flags of chattr(1) that files and directories of a volume can have (ioctl_iflags(2)).

/// Flags of an object, as the store keeps and obeys them.
public struct InodeFlags: OptionSet, Hashable, Sendable {
    /// The bits of FS_IOC_GETFLAGS.
    public let rawValue: UInt32

    /// Flags from bits.
    public init(rawValue: UInt32) { self.rawValue = rawValue }

    /// Every change syncs (`S`).
    public static let synchronous = InodeFlags(rawValue: 0x8)
    /// Nothing of the object changes, it is not renamed, linked or removed, and a directory's entries stay (`i`).
    public static let immutable = InodeFlags(rawValue: 0x10)
    /// Content is only appended (`a`). The store cannot obey this, because an append encrypts the last block again.
    public static let appendOnly = InodeFlags(rawValue: 0x20)
    /// Programs for backups skip it (`d`).
    public static let noDump = InodeFlags(rawValue: 0x40)
    /// Reading moves no access time (`A`).
    public static let noAccessTime = InodeFlags(rawValue: 0x80)
    /// Every change of a directory syncs (`D`).
    public static let synchronousDirectory = InodeFlags(rawValue: 0x10000)

    /// Those that programs see and may set. The others say how the store keeps its files.
    public static let settable: InodeFlags = [.synchronous, .immutable, .noDump, .noAccessTime, .synchronousDirectory]
}
