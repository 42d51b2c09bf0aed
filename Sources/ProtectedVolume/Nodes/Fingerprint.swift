// What tells that somebody else has changed a backing file: its length and modification time.

internal import BackingStore

/// What every change of a backing file's content moves.
struct Fingerprint: Sendable, Equatable {
    var length: UInt64
    var modified: Timestamp

    init(_ status: Status) {
        length = status.size
        modified = status.modified
    }
}
