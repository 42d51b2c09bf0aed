// Reserved names, attribute names, and the limits of encoded names.

/// Names of the backing store that users cannot have.
package enum ReservedName {
    /// The keybag, at the volume's root.
    package static let keybag: StaticString = ".protectfs.keybag"
    /// The keybag before the last change.
    package static let previousKeybag: StaticString = ".protectfs.keybag.old"
    /// A directory's record.
    package static let directoryRecord: StaticString = ".protectfs.dir"
    /// Prefix of the names of unfinished objects.
    package static let temporaryPrefix: StaticString = ".protectfs.tmp."
    /// Prefix of directory records that were set aside.
    package static let asidePrefix: StaticString = ".protectfs.aside."
    /// Prefix of late files, at the volume's root.
    package static let latePrefix: StaticString = ".protectfs.late."
    /// The directory at the volume's root for objects that a check has moved away.
    package static let lostAndFound: StaticString = ".protectfs.lost+found"
    /// The directory at the volume's root for what has no room in its own object.
    package static let overflow: StaticString = ".protectfs.overflow"
    /// The directory that ext4 makes in the root of a file system (e2fsck(8)), for its own fsck.
    package static let storesLostAndFound: StaticString = "lost+found"
    /// Prefix of all of them.
    package static let prefix: StaticString = ".protectfs."
    /// Prefix of entries whose names cannot be decrypted.
    package static let undecryptablePrefix: StaticString = ".undecryptable-"
    /// Prefix of entries whose names decrypt but cannot be verified, because their directory's record is lost.
    package static let unverifiedPrefix: StaticString = ".unverified-"

    /// The kind of a backing name, judged by its form alone.
    package enum Kind: Hashable, Sendable {
        /// The keybag or its predecessor.
        case keybag
        /// A directory's record.
        case record
        /// An unfinished object.
        case temporary
        /// A directory record that was set aside.
        case aside
        /// A late file, with writes that came after a lock.
        case late
        /// The directory of objects that a check has moved away.
        case lostAndFound
        /// The directory of overflow objects.
        case overflow
        /// Any other name with the reserved prefix. A newer version may have made it.
        case unknownReserved
        /// A long name's entry: `~` and 43 characters.
        case long
        /// A long name's companion: the entry's name and `.n`.
        case companion
        /// An encrypted name, if it decrypts.
        case encoded
        /// None of these. This format never writes such a name.
        case foreign

        /// Whether this format gives objects of this kind their place in the root directory or in the other directories. The
        /// table of docs/judge/volume-format.md, section 3.
        package func belongs(inRoot isRoot: Bool) -> Bool {
            switch self {
            case .record, .temporary, .aside, .long, .companion, .encoded: true
            case .keybag, .late, .lostAndFound, .overflow: isRoot
            case .unknownReserved, .foreign: false
            }
        }

        /// Whether the mount hides names of this kind in every directory.
        package var isHidden: Bool {
            switch self {
            case .keybag, .record, .temporary, .aside, .late, .lostAndFound, .overflow, .unknownReserved, .companion:
                true
            case .long, .encoded, .foreign: false
            }
        }
    }

    /// Judges a backing name by its form.
    package static func kind(of name: Span<UInt8>) -> Kind {
        if name.hasText(prefix) {
            if name.equals(keybag) || name.equals(previousKeybag) { return .keybag }
            if name.equals(directoryRecord) { return .record }
            if name.hasText(temporaryPrefix) { return .temporary }
            if name.hasText(asidePrefix) { return .aside }
            if LateFileName.number(of: name) != nil { return .late }
            if name.equals(lostAndFound) { return .lostAndFound }
            if name.equals(overflow) { return .overflow }
            return .unknownReserved
        }
        if name.count >= NameLimits.longNameLength, name[0] == 0x7e {
            if name.count == NameLimits.longNameLength { return .long }
            let isCompanion = name.count == NameLimits.longNameLength + 2 && name.hasText(".n", at: 44)
            return isCompanion ? .companion : .foreign
        }
        guard name.count >= NameLimits.shortestEncoding, Base64URL.decodedLength(of: name.count) != nil else {
            return .foreign
        }
        return .encoded
    }
}

/// The staging directory of FileProtection: an ordinary directory of the mount, named by the user ID of the program that
/// writes. A file has this name for a moment while it replaces another one.
package enum StagingName {
    private static let prefix: StaticString = ".protectfs-staging-"

    /// The name of the staging directory of this user's programs.
    package static func of(user: UInt32) -> String { "\(prefix)\(user)" }

    /// Whether `name` is that of a staging directory: the prefix, then digits.
    package static func matches(_ name: Span<UInt8>) -> Bool {
        let length = prefix.utf8CodeUnitCount
        guard name.count > length, name.hasText(prefix) else { return false }
        return (length..<name.count).allSatisfy { 0x30...0x39 ~= name[$0] }
    }
}

/// The names of files that a command of protectfs makes on a mount until they are complete.
package enum UnfinishedName {
    /// The beginning of those of `import`; random hexadecimal digits follow.
    package static let importPrefix: StaticString = ".protectfs-import-"
    /// The attribute of a directory that `import` has made and not finished.
    package static let importMark: StaticString = "user.protectfs-import"
}

/// Lengths of names, in bytes.
package enum NameLimits {
    /// The longest name whose encoding is itself the backing name, in a store with names of at most `length` bytes.
    package static func longestDirect(inStoreWith length: Int) -> Int {
        min(max(length * 3 / 4 - ivLength, 0), longestDirect)
    }

    /// The longest name of a directory entry.
    package static let longest = 255
    /// The longest name whose encoding is itself the backing name, if the store takes names of 255 bytes.
    package static let longestDirect = 175
    /// The longest name that is never long: a store without room for its encoding cannot hold it.
    package static let longestNeverLong = 91
    /// Bytes of the IV at the beginning of an encoding.
    package static let ivLength = 16
    /// Characters of the encoding of a one-byte name.
    package static let shortestEncoding = 23
    /// Characters of a long name's entry.
    package static let longNameLength = 44
    /// Suffix of a long name's companion.
    package static let companionSuffix: StaticString = ".n"
    /// First character of a long name's entry.
    package static let longPrefix: StaticString = "~"
    /// The longest attribute name, with its namespace (xattr(7)).
    package static let longestAttribute = 255
    /// The longest name of an attribute that has one of the store's own.
    package static let longestSingleAttribute = 168
}

/// Names of extended attributes.
package enum AttributeName {
    /// A file's class or a directory's default.
    package static let protection: StaticString = "user.protection"
    /// The mount's state, on its root. Not listed.
    package static let state: StaticString = "user.protectfs.state"
    /// The state of class 7, on the mount's root, in the words of the mount's state. Not listed.
    package static let inactiveState: StaticString = "user.protectfs.state.inactive"
    /// A file's flags, for `class list`. Not listed.
    package static let flags: StaticString = "user.protectfs.flags"
    /// File capabilities (capabilities(7)).
    package static let capability: StaticString = "security.capability"
    /// The label of SELinux, which `ls -l` asks of each file.
    package static let label: StaticString = "security.selinux"
    /// No object has this attribute. Removing it is refused with ENODATA, but for that the kernel takes the object's inode lock
    /// and so waits for running writers.
    package static let touch: StaticString = "user.protectfs.touch"
    /// No object has this attribute. The daemon removes it through the mount, which succeeds.
    package static let error: StaticString = "user.protectfs.error"
    /// Prefix of names that are reserved for the mount.
    package static let ownPrefix: StaticString = "user.protectfs."
    /// The name of an object's attribute record, which no program sees.
    package static let record: StaticString = "user.protectfs.attributes"
    /// Prefix of encrypted attributes in the backing store.
    package static let encryptedPrefix: StaticString = "user.pfs."
    /// The same of symlinks and special files, which cannot have `user.` attributes.
    package static let encryptedTrustedPrefix: StaticString = "trusted.pfs."
    /// Prefix of names that only an administrator may see.
    package static let trustedPrefix: StaticString = "trusted."
    /// The namespaces of the attributes that are stored encrypted.
    package static let namespaces: [StaticString] = ["user.", trustedPrefix, "security."]
    /// The mark of a backing file that has lost its name to a newly encrypted copy. It means nothing on others.
    package static let replaced: StaticString = "user.pfs-replaced"
    /// The modification time that programs are shown of a backing file whose own one says so. It means nothing on others.
    package static let shownTime: StaticString = "user.pfs-time"
    /// A POSIX ACL, passed to the backing file system.
    package static let accessACL: StaticString = "system.posix_acl_access"
    /// A directory's default POSIX ACL, passed to the backing file system.
    package static let defaultACL: StaticString = "system.posix_acl_default"
}
