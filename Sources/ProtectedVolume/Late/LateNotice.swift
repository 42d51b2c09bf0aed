// What a mount reports of late files.

package import KeyFiles

/// An event of a late file, for the log.
package enum LateNotice: Sendable, Equatable {
    /// The late file waits for a writable mount.
    case waits
    /// The state file lists the late file, but it is missing. Its records are lost.
    case missing
    /// This volume did not make the header or the key, or the file has fewer done records than were counted. None of its
    /// records are applied.
    case refused
    /// The state file does not list the late file. None of its records are applied.
    case notListed
    /// The end of the late file does not verify. The records before it are applied.
    case cutOff
    /// This number of records was written to their files.
    case applied(Int)
    /// A newer version has made the late file or a record in it. It is kept, and classes A and 7 are closed.
    case newer
    /// The records could not be written to their file. The file stays closed until they are.
    case failed(VolumeError)
}
