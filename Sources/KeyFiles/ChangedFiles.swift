// The list of files that a mount changes. After a crash it says which files can show crash damage, so that a check need not
// read the others.
//
// A file is on the list, durably, before this mount first changes its bytes in place. Files that this mount has made are not:
// a check knows them by their time of making. So a list that is missing says nothing, and one that is there says everything.
//
// The overflow objects that the mount makes or replaces are on the list, too, by their IDs: after a crash a check may remove them
// if nothing refers to them, and those that other machines have made must stay.

package import BackingStore
internal import HostSystem
package import VolumeFormat

/// A list in its file.
package struct ChangedListFile: Sendable {
    let list: ChangedList
    let file: BackingFile
    /// Removes the file, durably.
    let remove: @Sendable () throws(VolumeError) -> Void
    /// The error of a list that can be neither written nor removed.
    let failure: @Sendable (Errno) -> VolumeError
}

/// The files that one mount changes. Thread-safe. Everyone who waits for an entry shares one write and one sync.
package final class ChangedFiles: Sendable {
    private struct State {
        /// The list as it is durable; nil if none is kept, so that a check looks at all files.
        var kept: ChangedListFile?
        var list: ChangedList?
        /// The files that are listed durably.
        var listed: Set<UInt64> = []
        /// The files that the next write lists.
        var waiting: Set<UInt64> = []
        /// Whether the next write marks the list as one of all files.
        var marksAll = false
        var isWriting = false
        /// Counts writes.
        var writes = 0
        /// Counts writes that have failed. Those that wait for one do not try again.
        var failures = 0
        var failure: VolumeError?
    }

    private let state = Lock(State())
    private let changed = Condition()

    /// Begins to keep a list. Without one, every file counts as changed.
    func begin(_ file: ChangedListFile?) {
        state.withLock { state in
            state.kept = file
            state.list = file?.list
        }
    }

    /// Returns when a file is on the list, durably. Call it before the first change of its bytes, without a lock.
    ///
    /// - Throws: if the list can be neither written nor removed. The file must not be changed then, because a check would
    ///   believe the list.
    package func cover(_ inode: UInt64) throws(VolumeError) {
        try wait(for: { $0.listed.contains(inode) }) { $0.waiting.insert(inode) }
    }

    /// The entry of an overflow object. Its ID is random, so it is no inode number.
    package static func entry(of overflow: ObjectID) -> UInt64 {
        let bytes = overflow.bytes
        return bytes.span.littleEndian(at: 0) | 1 << 63
    }

    /// Notes files that will probably be changed. They are listed together with the next one, if half of the room allows it.
    package func expect(_ inodes: [UInt64]) {
        state.withLock { state in
            guard let list = state.list, inodes.count <= list.left / 2 - state.waiting.count else { return }
            for inode in inodes where !state.listed.contains(inode) { state.waiting.insert(inode) }
        }
    }

    /// The number of files that `expect` takes.
    package var room: Int {
        state.withLock { state in state.list.map { max($0.left / 2 - state.waiting.count, 0) } ?? 0 }
    }

    /// How often programs had to wait.
    package var waits: Int { state.withLock { $0.writes } }

    /// Notes a file that was just made. If the clock was set back, a check cannot know it by its time, so all files count as
    /// changed from now on.
    package func made(_ status: Status) throws(VolumeError) {
        guard let born = status.born?.nanosecondsSince1970 else { return }
        let isKnown = state.withLock { state in
            state.list.map { born >= $0.header.began } ?? true
        }
        if isKnown { return }
        try wait(for: { _ in false }) { $0.marksAll = true }
    }

    /// Waits until the list names what `ask` asks for, or no list is kept. One of the waiting threads writes for all.
    private func wait(
        for isListed: (borrowing State) -> Bool, _ ask: (inout State) -> Void
    ) throws(VolumeError) {
        let before = state.withLock { state -> Int? in
            if state.list == nil || isListed(state) { return nil }
            ask(&state)
            return state.failures
        }
        guard let before else { return }
        while true {
            // True to write, false if all is done.
            let mayWrite = state.wait(on: changed) { state -> Bool? in
                if state.list == nil || isListed(state) || state.failures != before { return false }
                if state.isWriting { return nil }
                state.isWriting = true
                return true
            }
            guard mayWrite == true else { break }
            write()
        }
        try state.withLock { (state) throws(VolumeError) in
            if state.list != nil, !isListed(state), let failure = state.failure { throw failure }
        }
    }

    /// Lists the files that wait, durably. Only one thread at a time.
    private func write() {
        let (kept, before, inodes, marksAll) = state.withLock { state in
            defer { state.waiting = [] }
            return (state.kept, state.list, state.waiting, state.marksAll)
        }
        guard let kept, var list = before else { return }
        var failure: VolumeError?
        do throws(Errno) {
            let (bytes, offset) = marksAll ? list.markAll() : list.append(Array(inodes))
            try kept.file.write(bytes.span, at: UInt64(offset))
            try kept.file.synchronize(dataOnly: true)
        } catch let error {
            // A check must not believe a list that is not complete.
            do throws(VolumeError) {
                try kept.remove()
                state.withLock { $0.list = nil }
            } catch _ { failure = kept.failure(error) }
        }
        state.withLock { state in
            state.isWriting = false
            state.writes += 1
            if let failure {
                state.failures += 1
                state.failure = failure
            } else if list.isAll {
                state.list = nil
                state.listed = []
            } else if state.list != nil {
                state.list = list
                state.listed.formUnion(inodes)
            }
        }
        changed.broadcast()
    }
}
