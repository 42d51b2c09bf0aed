// The repairs of a check and its options. `fsck --json` prints the raw values.

package import VolumeFormat

/// One thing that a check with repair did.
package struct Repair: Sendable {
    /// What it did.
    package enum Action: String, Sendable, CaseIterable {
        /// A directory's record was made anew.
        case rebuilt
        /// A file of which a crash left nothing got a header: it is empty.
        case header
        /// An entry whose name did not verify got another one.
        case renamed
        /// The readable part of a damaged file was copied to a new file beside it.
        case salvaged
        /// A leftover, or something that cannot be decrypted, was moved to `.protectfs.lost+found`.
        case moved
    }

    /// What it did.
    package let action: Action
    /// The path in the volume that was concerned, with the marked names of entries whose own are not verified.
    package let path: [UInt8]
    /// The same below the volume's directory.
    package let backingPath: [UInt8]
    /// For `renamed` and `salvaged` the new path in the volume; for `moved` the new path below the volume's directory.
    package var target: [UInt8]?
    /// For `salvaged`, the stretches of the file that could not be read, in bytes: they read as zeros.
    package var unreadable: [Range<UInt64>] = []
    /// For `rebuilt`, the class of new files in the directory.
    package var protectionClass: ProtectionClass?
    /// For `salvaged`, whether a former run had made the same copy.
    package var isOld = false
}

/// How a check is run.
package struct CheckOptions: Sendable {
    /// Mends what a mount would mend; false: the check writes nothing.
    package var mends = true
    /// Repairs everything that rules can decide, and salvages the readable content of damaged files.
    package var repairs = false
    /// Moves undecryptable objects to `.protectfs.lost+found`.
    package var quarantines = false
    /// Whether a person has confirmed an entry's name: called with its path without marks, and with its marked name at the
    /// end of that, which means this entry and no other; from any thread.
    package var isConfirmed: @Sendable ([UInt8]) -> Bool = { _ in false }
    /// Workers.
    package var threads = 2
    /// Counts beforehand how much there is, for an estimate.
    package var measures = false
    /// Asked often, from any thread; false ends the check where it is, with everything in order.
    package var mayGoOn: @Sendable () -> Bool = { true }

    /// A path as `isConfirmed` is asked about it, from one that a person gives: as a check prints it, or with the names alone.
    /// Marks are taken off directories, which may lose them in the same repair, and not off the entry itself.
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
