// The findings of a check and its summary. `fsck --json` prints the raw values.

package import VolumeFormat

/// One thing that a check found.
package struct Finding: Sendable {
    /// How bad it is.
    package enum Severity: String, Sendable, CaseIterable {
        /// Something cannot be read as it was written; `fsck --repair` is for these.
        case error
        /// A crash explains it; the content reads as the rules say.
        case crash
        /// Harmless.
        case note
    }

    /// What it is.
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
        /// A name decrypts, but its directory's record is lost, or was when the entry got its mark: the store may have chosen it.
        case unverifiedName = "unverified-name"
        /// The companion of a long name's entry is missing or does not verify.
        case companion
        /// A backing name that this format never writes: a sync client's conflict copy, a stray file.
        case foreign
        /// A directory's record does not verify.
        case record
        /// A directory has no record: nothing is created in it.
        case missingRecord = "missing-record"
        /// A record set aside does not verify.
        case aside
        /// A symlink's target does not decrypt.
        case symlink
        /// An extended attribute's name or value does not decrypt.
        case attribute
        /// A backing object of a kind that does not belong there.
        case kind
        /// The backing store could not read something.
        case store
        /// A companion whose long name is gone.
        case orphanCompanion = "orphan-companion"
        /// Something that was being made when the power went.
        case temporary
        /// A staging directory of FileProtection's: a program was killed while it wrote.
        case staging
        /// A record set aside whose directory is gone.
        case staleAside = "stale-aside"
        /// Writes that came after a lock, and are not in their files.
        case lateRecords = "late-records"
        /// A late file that does not count: it was used before, or is another machine's.
        case staleLate = "stale-late"
        /// A record set aside was put back.
        case restoredRecord = "restored-record"
        /// Crash damage was found in a file (see `crashEvidence`).
        case crashDamage = "crash-damage"
        /// A file that a crash had left was mended.
        case mended
        /// Two objects have the same ID: a backing file or a record was copied.
        case duplicate
        /// The keybag from before the last change is still there: that change was cut off.
        case previousKeybag = "previous-keybag"
        /// An older header may open the file under a weaker class.
        case keyExposed = "key-exposed"
    }

    /// What it is.
    package let kind: Kind
    /// How bad it is.
    package let severity: Severity
    /// The path in the volume, components joined by `/`; undecryptable ones as the mount shows them.
    package let path: [UInt8]
    /// The path below the volume's directory.
    package let backingPath: [UInt8]
    /// The page of the backing file, for damage in content.
    package var page: UInt64?
    /// For crash damage, the kind of evidence.
    package var crashEvidence: CrashEvidence.Kind?
    /// For `store`, the errno.
    package var errno: Int32?
}

/// How far a check is.
package struct CheckProgress: Sendable {
    /// Objects looked at.
    package var objects: UInt64 = 0
    /// Bytes of content verified.
    package var bytes: UInt64 = 0
    /// How much of the volume is done, in bytes below with something for each object.
    package var done: UInt64 = 0
    /// How much there is, in the same measure; nil: not known, or not yet.
    package var total: UInt64?
}

/// The outcome of a check.
package struct CheckSummary: Sendable {
    /// Directories looked at.
    package var directories = 0
    /// Regular files looked at; a hard-linked one once.
    package var files = 0
    /// Symlinks looked at.
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
    /// Names that are not verified, and were not confirmed.
    package var unverified = 0
    /// Files mended.
    package var mended = 0
    /// Errors that repair has settled.
    package var repaired = 0
    /// Leftovers that repair has moved away.
    package var tidied = 0
    /// Files of which a copy with everything readable was made.
    package var salvaged = 0
    /// Errors that are still there.
    package var remaining: Int { errors - repaired }
    /// Whether the check was ended before it had seen everything.
    package var isInterrupted = false
    /// Files whose content could not be verified because their class is locked, by class.
    package var unchecked: [ProtectionClass: Int] = [:]
    /// Whether everything was verified.
    package var isComplete: Bool { unchecked.isEmpty && !isInterrupted }
    /// Whether the epochs that ended badly were closed: from now on their damage is an error.
    package var closedEpochs = false
}
