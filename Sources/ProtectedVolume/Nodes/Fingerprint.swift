// Length and modification time of a closed backing file: if they change, somebody else has changed the file.

internal import BackingStore

/// The length and time that every change of a backing file's content moves.
struct Fingerprint: Sendable, Equatable {
    var length: UInt64
    var modified: Timestamp

    init(_ status: Status) {
        length = status.size
        modified = status.modified
    }
}
