// The length and modification time of a closed backing file. If they change, another program has changed the file.

package import BackingStore

/// The length and stored modification time of a backing file. Every change of the content changes one of them.
package struct LengthAndTime: Sendable, Equatable {
    var length: UInt64
    /// The stored modification time.
    package var modified: Timestamp

    /// Whether the time has no mark (`StoredTime`).
    package var isUnmarked: Bool { modified.nanoseconds != StoredTime.mark }

    /// Those of a backing file with `status`.
    package init(_ status: Status) { self.init(length: status.size, status.stored) }

    init(length: UInt64, _ modified: Timestamp) {
        self.length = length
        self.modified = modified
    }
}
