// The repairs of a check and its options. `fsck --json` prints the raw values.

package import BackingStore
internal import ProtectedVolume
package import VolumeFormat

/// One repair by a check.
package struct Repair: Sendable {
    /// The kinds of repairs.
    package enum Action: String, Sendable, CaseIterable {
        /// A file that a crash had left unfinished was completed, as a mount does before the first change. It reads as before.
        case mended
        /// A directory's record was replaced.
        case rebuilt
        /// A file of which a crash left nothing got a header. It is empty.
        case header
        /// An entry whose name did not verify was renamed.
        case renamed
        /// The readable part of a damaged file was copied to a new file beside it.
        case salvaged
        /// A leftover or an undecryptable object was moved to `.protectfs.lost+found`.
        case moved
    }

    /// The kind of repair.
    package let action: Action
    /// The path in the volume. Entries whose names are not verified have marked names in it.
    package let path: [UInt8]
    /// The same object's path below the volume's directory.
    package let backingPath: [UInt8]
    /// The new path. For `renamed` and `salvaged` it is in the volume, for `moved` below the volume's directory.
    package var target: [UInt8]?
    /// For `salvaged`, the byte ranges of the file that could not be read. They read as zeros in the copy.
    package var unreadable: [Range<UInt64>] = []
    /// For `rebuilt`, the class of new files in the directory.
    package var protectionClass: ProtectionClass?
    /// For `salvaged`, whether an earlier run had made the same copy.
    package var isOld = false
}

/// The options of a check.
package struct CheckOptions: Sendable {
    /// Mends the same damage as a mount. If false, the check writes nothing.
    package var mends = true
    /// Repairs everything that rules can decide, and salvages the readable content of damaged files.
    package var repairs = false
    /// Moves undecryptable objects to `.protectfs.lost+found`.
    package var quarantines = false
    /// Reads only what can show damage of a crash.
    package var isQuick = false
    /// Called once before a quick check reads, with how it finds the files.
    package var decided: @Sendable (QuickReach) -> Void = { _ in }
    /// Whether a person has confirmed an entry's name. It is called with the entry's path without marks, and with the
    /// same path but the marked name at its end, which means only this entry. Called from any thread.
    package var isConfirmed: @Sendable ([UInt8]) -> Bool = { _ in false }
    /// The number of workers.
    package var threads = 2
    /// A directory for a file without a name, with the IDs that do not fit into memory. The store shows them as well.
    package var scratch: BackingDirectory?
    /// The number of IDs in memory, 24 bytes each.
    package var idsInMemory = 65536
    /// The number of names of one directory in memory.
    package var namesInMemory = 32768
    /// Measures the volume, for an estimate of the remaining time.
    package var measures = false
    /// Continues an interrupted check: does not read again what that one has read and nothing has changed.
    package var resumes = false
    /// Called before anything is checked if `resumes` is set, with the time when the interrupted check began, or with the reason
    /// why everything is read.
    package var begins: @Sendable (Result<Int64, CheckRestart>) -> Void = { _ in }
    /// Bytes that are the same as long as the store is.
    package var storeIdentity: [UInt8] = []
    /// How often the check records how far it has come, in nanoseconds. It also does if it is interrupted.
    package var recordInterval: UInt64 = 5_000_000_000
    /// Called often, from any thread. If it returns false, the check ends early and leaves a consistent volume.
    package var mayGoOn: @Sendable () -> Bool = { true }

    /// Converts a path from a person to the form that `isConfirmed` gets. The path may have marked names, as a check
    /// prints it, or only the original names. Directories lose their marks, because the same repair may rename them.
    /// The entry itself keeps its mark.
    package static func confirmablePath(_ path: [UInt8]) -> [UInt8] {
        let (above, name) = UnverifiedName.parts(path)
        return above.isEmpty ? name : UnverifiedName.withoutMarks(above) + [UInt8(ascii: "/")] + name
    }

    /// The original name inside the marked name at the end of a path; nil if the path does not end with one.
    package static func nameCarried(by path: [UInt8]) -> [UInt8]? {
        UnverifiedName.plain(UnverifiedName.parts(path).name)
    }

    /// A check that mends and repairs nothing.
    package init() {}
}
