// Traces of a crash in a backing file, for the log, `status` and `fsck`.

package import VolumeFormat

/// One trace of a crash in a backing file: an uninterrupted writer never leaves it. It was tolerated, because a crash explains
/// it. docs/judge/volume-format.md calls it a departure.
package struct CrashEvidence: Hashable, Sendable {
    /// The kinds of evidence, by the recovery rules of docs/judge/volume-format.md.
    package enum Kind: String, Hashable, Sendable, CaseIterable {
        /// R0: the header was never written. The file is empty and takes its parent's default class.
        case missingHeader
        /// R1: pages after a page 0 that says LAST were dropped.
        case droppedPages
        /// R3: zero pages after the last page were dropped.
        case droppedZeroPages
        /// R3: the last page does not say LAST. The size follows from the backing file's length.
        case unfinishedEnd
        /// The backing file's length and the last page disagree. The page is right.
        case lengthMismatch
        /// R4: a page of zeros in a file without holes reads as zeros.
        case zeroPage
        /// R4: a page in the middle says LAST. The rest of it reads as zeros.
        case lastInMiddle
        /// R5: the file was mended before its first modification.
        case repaired
        /// R5: the store has lost much of a file without holes. The file has holes from now on.
        case madeSparse
        /// R5: a page that does not verify was left as it is.
        case damagedPage
    }

    /// The kind of evidence.
    package let kind: Kind
    /// The page concerned.
    package let page: UInt64
    /// The file, where its header could be read.
    package let fileID: ObjectID?
    /// The backing file's inode number.
    package let inode: UInt64
}
