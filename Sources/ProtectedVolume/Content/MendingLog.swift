// Which files of a mount wait to have their middle mended (rule R5), and how far each has got.

internal import HostSystem
internal import VolumeFormat

/// What rule R5 leaves for later.
struct Unmended: Sendable, Equatable {
    /// One that ended badly and is listed: page 0 carries it, durably, until the middle is mended.
    var epoch: UInt32
    /// The first block that was not looked at.
    var next: UInt64
    /// The last block at the crash: what came behind it since is this mount's.
    var end: UInt64
    /// Whether the holes of the store were counted, and HOLES set where they are long.
    var isCounted = false
}

/// A file, as long as its inode number is not used again for another.
struct MendingKey: Hashable, Sendable {
    let inode: UInt64
    let fileID: ObjectID
}

/// Files whose ends this mount has mended and whose middle waits. Thread-safe.
///
/// A file that was closed in between goes on where it was: nobody else writes an exclusive mount's files.
package final class MendingLog: Sendable {
    private struct State: Sendable {
        var next: [MendingKey: UInt64] = [:]
        var hasNews = false
        var isStopping = false
    }

    /// Files remembered; those beyond begin again when they are next written to.
    private static let limit = 4096
    private let state = Lock(State())
    private let changed = Condition()

    init() {}

    /// A file's ends are durable, and its blocks before `next` mended.
    func add(_ key: MendingKey, at next: UInt64) {
        state.withLock { state in
            if state.next.count < Self.limit || state.next[key] != nil { state.next[key] = next }
            state.hasNews = true
        }
        changed.broadcast()
    }

    /// A file that waits was opened again.
    func tell() {
        state.withLock { $0.hasNews = true }
        changed.broadcast()
    }

    /// How far a file has got.
    func advance(_ key: MendingKey, to next: UInt64) {
        state.withLock { $0.next[key]? = next }
    }

    /// Nil where the ends were not mended by this mount, or all is mended.
    func next(_ key: MendingKey) -> UInt64? { state.withLock { $0.next[key] } }

    /// The file is mended, or its end failed.
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

    /// Ends the waiting: the mount ends, and what is not mended stays tolerated.
    package func stop() {
        state.withLock { $0.isStopping = true }
        changed.broadcast()
    }
}
