// The files of a mount whose middle waits to be mended (rule R5), and the progress of each.

internal import HostSystem
internal import VolumeFormat

/// The part of rule R5 that is done later.
struct UnmendedRange: Sendable, Equatable {
    /// An epoch that is listed as one that ended badly. Page 0 has it, durably, until the middle is mended.
    var epoch: UInt32
    /// The first block that was not verified yet.
    var next: UInt64
    /// The last block at the crash. This mount has written the later ones.
    var end: UInt64
    /// Whether the holes of the store were counted, and HOLES set if there are many.
    var isCounted = false
}

/// The identity of a file, valid until its inode number is used again.
struct MendingKey: Hashable, Sendable {
    let inode: UInt64
    let fileID: ObjectID
}

/// The files whose ends this mount has mended and whose middle waits. Thread-safe.
///
/// A file that is opened again continues where it was, because only this mount writes the files.
package final class MendingLog: Sendable {
    private struct State: Sendable {
        var next: [MendingKey: UInt64] = [:]
        var hasNews = false
        var isStopping = false
    }

    /// The limit of files remembered. Other files begin again at their next write.
    private static let limit = 4096
    private let state = Lock(State())
    private let changed = Condition()

    init() {}

    /// Adds a file whose ends are durable, and whose blocks before `next` are mended.
    func add(_ key: MendingKey, at next: UInt64) {
        state.withLock { state in
            if state.next.count < Self.limit || state.next[key] != nil { state.next[key] = next }
            state.hasNews = true
        }
        changed.broadcast()
    }

    /// Notes that a waiting file was opened again.
    func tell() {
        state.withLock { $0.hasNews = true }
        changed.broadcast()
    }

    /// Sets the progress of a file.
    func advance(_ key: MendingKey, to next: UInt64) {
        state.withLock { $0.next[key]? = next }
    }

    /// The progress of a file; nil if this mount has not mended its ends, or if all is mended.
    func next(_ key: MendingKey) -> UInt64? { state.withLock { $0.next[key] } }

    /// Removes a file that is mended, or whose end could not be written.
    func forget(_ key: MendingKey) { state.withLock { _ = $0.next.removeValue(forKey: key) } }

    /// Whether any file waits.
    package var isEmpty: Bool { state.withLock { $0.next.isEmpty } }

    /// Waits for a file to mend, or until `deadline` (CLOCK_MONOTONIC, ns); false once `stop()` was called.
    package func wait(until deadline: UInt64?) -> Bool {
        let mayGoOn = state.wait(on: changed, until: deadline) { state -> Bool? in
            if state.isStopping { return false }
            defer { state.hasNews = false }
            return state.hasNews ? true : nil
        }
        return mayGoOn ?? true
    }

    /// Whether `stop()` was called.
    package var isStopping: Bool { state.withLock { $0.isStopping } }

    /// Ends the waiting when the mount ends. Damage that is not mended stays tolerated.
    package func stop() {
        state.withLock { $0.isStopping = true }
        changed.broadcast()
    }
}
