// The findings of a check and its summary. `fsck --json` prints the raw values.

package import FileContents
package import KeyFiles
package import VolumeFormat

/// One thing that a check found.
package struct Finding: Sendable {
    /// The severities.
    package enum Severity: String, Sendable, CaseIterable {
        /// Something cannot be read as it was written. `fsck --repair` handles these.
        case error
        /// A crash explains it. The content reads as the recovery rules say.
        case crash
        /// Harmless.
        case note
        /// A newer version of protectfs made it. It is not damaged, and no repair changes it.
        case newer
    }

    /// The kinds of findings.
    package enum Kind: String, Sendable, CaseIterable {
        /// A file's header does not verify.
        case header
        /// A file has no header and no crash explains it.
        case missingHeader = "missing-header"
        /// A wrapped file key does not open.
        case wrap
        /// A block does not verify.
        case block
        /// A zeroed page in a file without holes.
        case zeroPage = "zero-page"
        /// Length and last block disagree.
        case length
        /// A backing name of the right form does not decrypt.
        case name
        /// A name decrypts but is not verified, because its directory's record is lost, or was lost when the entry got
        /// its mark. The store may have chosen the name.
        case unverifiedName = "unverified-name"
        /// The companion of a long name's entry is missing or does not verify.
        case companion
        /// A backing name that this format never writes.
        case foreign
        /// A program has made this name from that of the entry at `path`, as sync programs do for the second version of a file.
        case conflict
        /// A reserved name that this version does not know, or not in this directory. A newer version may have made the object.
        case reservedName = "reserved-name"
        /// A directory's record does not verify.
        case record
        /// A directory has no record, so nothing can be created in it.
        case missingRecord = "missing-record"
        /// A record set aside does not verify.
        case aside
        /// A symlink's target does not decrypt.
        case symlink
        /// An extended attribute's name or value does not decrypt.
        case attribute
        /// A backing object has a wrong kind.
        case kind
        /// The backing store reported an error.
        case store
        /// A companion's long name no longer exists.
        case orphanCompanion = "orphan-companion"
        /// Nothing refers to an overflow object.
        case orphanOverflow = "orphan-overflow"
        /// An object was unfinished at a crash.
        case temporary
        /// A staging directory or file of FileProtection, from a program that was killed while it wrote.
        case staging
        /// The directory of a record set aside no longer exists.
        case staleAside = "stale-aside"
        /// Writes that came after a lock are not in their files yet.
        case lateRecords = "late-records"
        /// A late file is not applied. It was used before, or it belongs to another machine.
        case staleLate = "stale-late"
        /// A crash has left a directory's record set aside. It is put back, unless nothing may be written.
        case restoredRecord = "restored-record"
        /// Crash damage was found in a file (see `crashEvidence`).
        case crashDamage = "crash-damage"
        /// A file is older than this machine has seen it: someone has put an older version back.
        case older = "older-than-seen"
        /// Two objects have the same ID, because a backing file or a record was copied.
        case duplicate
        /// Objects with the same ID were not looked for, because the IDs could not be kept.
        case duplicatesUnchecked = "duplicates-unchecked"
        /// The keybag from before the last change still exists, because that change was interrupted.
        case previousKeybag = "previous-keybag"
        /// An older header may open the file under a weaker class.
        case keyExposed = "key-exposed"
        /// An object that verifies, with a version, flag, class or number that this program does not know.
        case newer
    }

    /// What is wrong.
    package let kind: Kind
    /// Whether it is an error, or a crash or a newer version explains it.
    package let severity: Severity
    /// The path in the volume, with components joined by `/`. Undecryptable names are as the mount shows them.
    package let path: [UInt8]
    /// The path below the volume's directory.
    package let backingPath: [UInt8]
    /// The page of the backing file, for damage in content.
    package var page: UInt64?
    /// For crash damage, the kind of evidence.
    package var crashEvidence: CrashEvidence.Kind?
    /// For `store`, the errno.
    package var errno: Int32?
    /// For `newer`, what a newer version has made.
    package var object: Damage?
}

/// The progress of a check.
package struct CheckProgress: Sendable {
    /// The number of objects checked.
    package var objects: UInt64 = 0
    /// Bytes of content verified.
    package var bytes: UInt64 = 0
    /// The part of the volume that is done, in backing bytes with a weight for each object.
    package var done: UInt64 = 0
    /// The totals; nil if they are not known yet.
    package var total: Total?

    /// What a volume has.
    package struct Total: Sendable {
        /// The number of objects.
        package var objects: UInt64 = 0
        /// The bytes of the backing files.
        package var bytes: UInt64 = 0
        /// The sum in the measure of `done`.
        package var work: UInt64 = 0
    }
}

/// The outcome of a check.
package struct CheckSummary: Sendable {
    /// Directories checked.
    package var directories = 0
    /// Regular files checked; a hard-linked file counts once.
    package var files = 0
    /// For a quick check, how it found the files that it had to read.
    package var quick: QuickReach?
    /// Regular files that were opened. A quick check does not open all.
    package var opened = 0
    /// Regular files that were read whole, or as far as they could be.
    package var read = 0
    /// Symlinks checked.
    package var symlinks = 0
    /// FIFOs, sockets and devices.
    package var others = 0
    /// Bytes of content verified.
    package var bytes: UInt64 = 0
    /// Findings by severity.
    package var errors = 0
    /// Places with crash damage.
    package var crashes = 0
    /// Harmless findings.
    package var notes = 0
    /// Objects that a newer version made.
    package var newer = 0
    /// Names that are not verified, and were not confirmed.
    package var unverified = 0
    /// Files mended after a crash.
    package var mended = 0
    /// Errors that repair has repaired.
    package var repaired = 0
    /// Leftovers that repair has moved away.
    package var tidied = 0
    /// Files whose readable part was copied to a new file.
    package var salvaged = 0
    /// Errors that remain.
    package var remaining: Int { errors - repaired }
    /// Whether the check ended before it had seen everything.
    package var isInterrupted = false
    /// Why an interrupted check cannot be continued. Nil if it can.
    package var unrecorded: CheckUnrecorded?
    /// Files whose blocks an interrupted check has read, so that this one has not.
    package var filesReadBefore = 0
    /// The bytes of their contents.
    package var bytesReadBefore: UInt64 = 0
    /// Files whose content could not be verified because their class is locked, by class.
    package var unchecked: [ProtectionClass: Int] = [:]
    /// Whether everything was verified.
    package var isComplete: Bool { unchecked.isEmpty && !isInterrupted }
    /// Whether everything was verified and understood, and no error remains. What a newer version made may hold crash damage
    /// that only that version can judge.
    package var isWhole: Bool { isComplete && remaining == 0 && newer == 0 }
    /// Whether the epochs that ended badly were closed. From now on their damage is an error.
    package var closedEpochs = false
}
