// The files of a mount whose middle waits to be mended (rule R5), and the progress of each.

internal import HostSystem
internal import KeyFiles
internal import VolumeFormat

/// The part of rule R5 that is done later.
struct UnmendedRange: Sendable, Equatable {
    /// An epoch that is listed as one that ended badly. Page 0 has it, durably, until the middle is mended.
    var epoch: UInt32
    /// The last block at the crash. This mount has written the later ones.
    var end: UInt64
    /// What was done of it.
    var progress = MendingProgress()
    /// Whether the holes of the store were counted, and HOLES set if there are many.
    var isCounted = false
    /// A newer version has made a block of the middle. Nothing more is done until the file is opened anew.
    var isStopped = false
}

/// How much of a middle was checked and mended. All of it is checked before anything is written, because nothing is
/// written where a newer version has made a block.
struct MendingProgress: Sendable, Equatable {
    /// The limit of `waiting`. Beyond it the last one grows.
    private static let mostRanges = 1024

    /// The first block that was not checked yet.
    var next: UInt64 = 1
    /// The checked blocks that have to be mended, in ascending order.
    private(set) var waiting: [Range<UInt64>] = []

    /// Adds checked blocks that have to be mended. They are after all others.
    mutating func add(_ blocks: Range<UInt64>) {
        if let last = waiting.last, last.upperBound == blocks.lowerBound || waiting.count >= Self.mostRanges {
            waiting[waiting.count - 1] = last.lowerBound..<blocks.upperBound
        } else if !blocks.isEmpty {
            waiting.append(blocks)
        }
    }

    /// Notes that all blocks before `block` are mended.
    mutating func mended(upTo block: UInt64) {
        while let first = waiting.first, first.lowerBound < block {
            if first.upperBound > block {
                waiting[0] = block..<first.upperBound
                return
            }
            waiting.removeFirst()
        }
    }
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
        var files: [MendingKey: MendingProgress] = [:]
        /// Those of `files` in which a newer version has made a block.
        var stopped: Set<MendingKey> = []
        var hasNews = false
        var isStopping = false
    }

    /// The limit of files remembered. Other files begin again at their next write.
    private static let limit = 4096
    private let state = Lock(State())
    private let changed = Condition()

    init() {}

    /// Adds a file whose ends are durable, and of whose middle nothing is done yet.
    func add(_ key: MendingKey) {
        state.withLock { state in
            if state.files.count < Self.limit || state.files[key] != nil { state.files[key] = MendingProgress() }
            state.stopped.remove(key)
            state.hasNews = true
        }
        changed.broadcast()
    }

    /// Notes that a waiting file was opened again.
    package func tell() {
        state.withLock { $0.hasNews = true }
        changed.broadcast()
    }

    /// Sets the progress of a file.
    func advance(_ key: MendingKey, to progress: MendingProgress) {
        state.withLock { $0.files[key]? = progress }
    }

    /// Notes that a newer version has made a block of the file. It does not wait until it is opened anew.
    func stop(_ key: MendingKey) {
        state.withLock { state in
            if state.files[key] != nil { state.stopped.insert(key) }
        }
    }

    /// The progress of a file that is opened, which waits again from now on. Nil if this mount has not mended its ends, or
    /// if all is mended.
    func resume(_ key: MendingKey) -> MendingProgress? {
        state.withLock { state in
            state.stopped.remove(key)
            return state.files[key]
        }
    }

    /// Removes a file that is mended, or whose end could not be written.
    func forget(_ key: MendingKey) {
        state.withLock { state in
            state.files[key] = nil
            state.stopped.remove(key)
        }
    }

    /// Whether no file waits that can be mended.
    package var isEmpty: Bool { state.withLock { $0.files.count == $0.stopped.count } }

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
