// The errors of a volume, as one typed error. The command line makes the sentences that a person reads.

package import HostSystem
package import VolumeFormat

/// Why an operation on a volume failed.
package enum VolumeError: Error, Equatable, Sendable {
    /// The class's key is not in memory, or its state refuses the operation.
    case locked(ProtectionClass)
    /// The backing store refused.
    case store(Errno)
    /// Stored bytes do not verify, so this volume did not write them.
    case damaged(Damage)
    /// Stored bytes verify, but a newer version of the format made them (docs/judge/volume-format.md, section 11). The value says what
    /// kind of object it is.
    case newer(Damage)
    /// This machine's state file, outside of the volume, cannot be read or written.
    case stateFile(StateFileFailure)
    /// The operation itself is not possible, independent of the store (`EEXIST`, `ENOTEMPTY`, `EINVAL` …).
    case refused(Errno)

    /// No such entry.
    package static let noEntry = VolumeError.refused(.ENOENT)
    /// The entry exists already.
    package static let exists = VolumeError.refused(.EEXIST)
    /// The arguments make no sense.
    package static let invalid = VolumeError.refused(.EINVAL)
    /// The name is longer than the format can store.
    package static let nameTooLong = VolumeError.refused(.ENAMETOOLONG)
    /// The directory has entries.
    package static let notEmpty = VolumeError.refused(.ENOTEMPTY)
    /// No such extended attribute.
    package static let noAttribute = VolumeError.refused(.ENODATA)
    /// The object does not support the request.
    package static let notSupported = VolumeError.refused(.EOPNOTSUPP)
    /// The mount is read-only.
    package static let readOnly = VolumeError.refused(.EROFS)
    /// The object behind the handle is gone, or another one took its place.
    package static let stale = VolumeError.refused(.ESTALE)
}

/// The kind of stored data that failed its check, or that a newer version made.
package enum Damage: String, Equatable, Sendable, CaseIterable {
    /// A file's header or its MAC.
    case header
    /// A wrapped file key.
    case wrap
    /// A block of content.
    case block
    /// The length of a file and its last block disagree.
    case length
    /// A zeroed page in a file without holes.
    case zeroPage
    /// A backing file cut below one page, or with a zeroed first page.
    case missingHeader
    /// An encrypted name.
    case name
    /// The companion of a long name.
    case companion
    /// A directory's record.
    case record
    /// A directory without a record.
    case missingRecord
    /// A symlink's target.
    case symlink
    /// An extended attribute's name or value.
    case attribute
    /// A late file or one of its records.
    case late
    /// The backing object has a wrong type.
    case kind
    /// A file that is older than this machine has seen it.
    case older
}
