// Reserved names, attribute names, and the limits of encoded names.

/// Names of the backing store that are no user's.
public enum ReservedName {
    /// The keybag, at the volume's root.
    public static let keybag: StaticString = ".protectfs.keybag"
    /// The keybag before the last change.
    public static let previousKeybag: StaticString = ".protectfs.keybag.old"
    /// A directory's record.
    public static let directoryRecord: StaticString = ".protectfs.dir"
    /// Prefix of names of things being made.
    public static let temporaryPrefix: StaticString = ".protectfs.tmp."
    /// Prefix of records set aside.
    public static let asidePrefix: StaticString = ".protectfs.aside."
    /// Prefix of late files, at the volume's root.
    public static let latePrefix: StaticString = ".protectfs.late."
    /// The directory at the volume's root for what a check has moved out of the way.
    public static let lostAndFound: StaticString = ".protectfs.lost+found"
    /// Prefix of all of them.
    public static let prefix: StaticString = ".protectfs."
    /// Prefix under which entries appear whose names cannot be decrypted.
    public static let undecryptablePrefix: StaticString = ".undecryptable-"
    /// Prefix under which entries appear whose names decrypt, but are proven by nothing: their directory's record is lost.
    public static let unverifiedPrefix: StaticString = ".unverified-"

    /// What a backing name is, from its form alone.
    public enum Kind: Hashable, Sendable {
        /// The keybag or its predecessor.
        case keybag
        /// A directory's record.
        case record
        /// A thing being made.
        case temporary
        /// A record set aside.
        case aside
        /// A late file: writes that came after a lock.
        case late
        /// What a check has moved out of the way.
        case lostAndFound
        /// A long name's entry: `~` and 43 characters.
        case long
        /// A long name's companion: the entry's name and `.n`.
        case companion
        /// An encrypted name, if it decrypts.
        case encoded
        /// None of these; never written by this format.
        case foreign
    }

    /// Judges a backing name by its form.
    public static func kind(of name: RawSpan) -> Kind {
        if name.hasText(prefix) {
            if name.equals(keybag) || name.equals(previousKeybag) { return .keybag }
            if name.equals(directoryRecord) { return .record }
            if name.hasText(temporaryPrefix) { return .temporary }
            if name.hasText(asidePrefix) { return .aside }
            if name.hasText(latePrefix) { return .late }
            if name.equals(lostAndFound) { return .lostAndFound }
            return .foreign
        }
        if name.byteCount >= NameLimits.longNameLength, name.byte(at: 0) == 0x7e {
            if name.byteCount == NameLimits.longNameLength { return .long }
            let isCompanion = name.byteCount == NameLimits.longNameLength + 2 && name.hasText(".n", at: 44)
            return isCompanion ? .companion : .foreign
        }
        guard name.byteCount >= NameLimits.shortestEncoding, Base64URL.decodedLength(of: name.byteCount) != nil else {
            return .foreign
        }
        return .encoded
    }
}

/// Lengths of names, in bytes.
public enum NameLimits {
    /// The longest name of a directory entry.
    public static let longest = 255
    /// The longest name whose encoding is itself the backing name.
    public static let longestDirect = 175
    /// Bytes of the IV that an encoding begins with.
    public static let ivLength = 16
    /// Characters of the encoding of a one-byte name.
    public static let shortestEncoding = 23
    /// Characters of a long name's entry.
    public static let longNameLength = 44
    /// Suffix of a long name's companion.
    public static let companionSuffix: StaticString = ".n"
    /// First character of a long name's entry.
    public static let longPrefix: StaticString = "~"
    /// The longest attribute name, with its namespace.
    public static let longestAttribute = 168
}

/// Names of extended attributes.
public enum AttributeName {
    /// A file's class or a directory's default.
    public static let protection: StaticString = "user.protection"
    /// The mount's state, on its root; not listed.
    public static let state: StaticString = "user.protectfs.state"
    /// A file's flags, for `class list`; not listed.
    public static let flags: StaticString = "user.protectfs.flags"
    /// Prefix of names that the mount keeps for itself.
    public static let ownPrefix: StaticString = "user.protectfs."
    /// Prefix of encrypted attributes in the backing store.
    public static let encryptedPrefix: StaticString = "user.pfs."
    /// POSIX ACL, passed to the backing file system.
    public static let accessACL: StaticString = "system.posix_acl_access"
    /// A directory's default POSIX ACL, passed to the backing file system.
    public static let defaultACL: StaticString = "system.posix_acl_default"
}
