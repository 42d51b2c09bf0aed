// Decides about every modification time that the kernel keeps.

internal import BackingStore
internal import FileContents
internal import FuseBridge
internal import HostSystem
internal import KeyFiles
internal import Keybag
internal import ProtectedVolume
internal import Synchronization
internal import VolumeFormat

/// Keeps the modification times of the kernel and of the store equal.
///
/// With the write-back cache the kernel owns the modification time of every file that it knows. It moves that time when a
/// program writes to the page cache, and sends it as a SETATTR. Our part is to store the times that it sends. Five facts
/// complicate this; each has its method. With `-o shared` there is no write-back cache, the store owns all times, and the
/// methods do nothing.
///
/// 1. *Pages come late.* The kernel writes a page back after the program's call, perhaps after a program has set a time.
///    Such a write moves the time of the backing file, and must not. `KeptTime` (in ProtectedVolume, as each content has one)
///    remembers the time that was set last and restores it when the last writer closes. Our own changes, such as crash repair,
///    restore the time at once (`ContentTimes.preserving`).
///
/// 2. *A direct write does not move the kernel's time*, only the store's. Nor does truncate(2) to the size that a file has, with
///    which the kernel sends no time (`fuse_do_setattr`). The handler notes the file (`directWrite`, `truncated`); the helper
///    thread then sets the store's time through the mount, for all files of the last 20 ms together, or at once if the file is
///    closed (`lastClose`). Until then the kernel's time is old: a stat(2) waits for the helper (`waitUntilTold`), but not when
///    the helper's call for the file has taken 30 ms, because setxattr(2) asks for attributes while it holds the inode's lock,
///    which the helper needs. An answer without the time is good for one look (`isBehind`).
///
/// 3. *A SETATTR does not say who chose the time.* After a change of a file's names or attributes the kernel sends its own
///    time, on behalf of the thread that made the change, and before the change returns to that thread. So it comes before
///    anything else that the thread may ask for. `namesChanged` notes the thread; `receive` finds the note. If the time is the
///    kernel's own and a direct write is not told yet, the time is from before that write, and is dropped. If a program set the
///    time, the helper has nothing to tell any more, and its later SETATTR is refused.
///
/// 4. *A killed program leaves an error.* If the thread dies before a worker has the SETATTR of 3, the kernel drops the
///    request and keeps EIO in the inode (`fuse_flush_time_update`, `mapping_set_error`). The next read past the page cache
///    reports that, or the next close, to any program. So before a program opens such a file, the helper opens and closes it
///    (`clearError`), which takes the error away. fsync(2) reports it as well, once. That record also tells of pages that were
///    lost, and stays.
///
/// 5. *The helper is a client of this mount.* Its own requests must not wait for it (`waitUntilTold`, `clearError`), and while
///    it waits behind a program that holds an inode's lock, no other file's time is told. So every wait for it has an end.
///
/// No lock is held across a call on the mount or on the volume.
final class FileTimes: Sendable {
    private struct Untold: Sendable {
        /// The times of files after a direct write or a truncation, by node number.
        var files: [UInt64: UntoldTime] = [:]
        /// Those that the helper is telling the kernel now.
        var inHand: [UInt64: UntoldTime] = [:]
        /// Handlers that wait for the helper.
        var hurries = 0
        /// The file whose time the helper sets now, and since when (CLOCK_MONOTONIC).
        var call: (number: UInt64, since: UInt64)?
    }
    private struct Due: Sendable {
        struct Change: Sendable {
            let thread: Int32
            let number: UInt64
            /// From just before a change of names.
            let attributes: ProtectedVolume.Attributes?
            /// CLOCK_MONOTONIC.
            let time: UInt64
        }
        /// By node number: the threads that changed the file and whose SETATTR has not come.
        var threads: [UInt64: ShortList<Change>] = [:]
        /// The number of changes so far.
        var changes: UInt64 = 0
    }
    /// Limits the attempts, so that a program that keeps renaming a file cannot keep the helper busy.
    private static let mostTries = 5
    /// A call of the helper that takes longer, in nanoseconds, may wait for a lock of the handler's caller.
    private static let callPatience: UInt64 = 30_000_000
    /// How long a handler waits for the helper's calls for other files, in nanoseconds.
    private static let patience: UInt64 = 1_000_000_000

    private let volume: Volume
    private let calls: DeferredCalls
    private let waits: WaitLimit
    private let untold = Lock(Untold())
    /// The number of files in `untold`, so that its lock is not taken if there are none.
    private let untoldCount = Atomic<Int>(0)
    private let due = Lock(Due())
    /// The number of files in `due`, for the same reason.
    private let dueCount = Atomic<Int>(0)

    init(_ volume: Volume, _ calls: DeferredCalls, _ waits: WaitLimit) {
        self.volume = volume
        self.calls = calls
        self.waits = waits
    }

    private var isKernels: Bool { !volume.options.isShared }

    // MARK: direct writes

    /// Called after a direct write has moved the store's time.
    func directWrite(to file: OpenFile) { if isKernels { moved(file.makeTime()) } }

    /// Called after a truncation for which the kernel has sent no time, which has moved the store's time.
    func truncated(_ node: Node, _ file: OpenFile?) {
        if isKernels { moved(file?.makeTime() ?? UntoldTime(of: node)) }
    }

    private func moved(_ time: UntoldTime) {
        guard time.note() else { return }
        let isFirst = untold.withLock { untold in
            defer { add(time, to: &untold) }
            return untold.files.isEmpty
        }
        guard isFirst else { return }
        calls.helper.add { [self] in
            for _ in 0..<10 where untold.withLock({ $0.hurries == 0 }) { sleep(milliseconds: 2) }
            tell()
        }
    }

    /// Called when the last handle of the file is closed.
    func lastClose(of file: OpenFile) {
        guard let time = file.time, time.isUntold else { return }
        untold.withLock { add(time, to: &$0) }
        calls.helper.add { [self] in tell() }
    }

    /// Whether the kernel's time of the file is older than a direct write. The file may have been closed since.
    func isBehind(_ number: UInt64) -> Bool {
        guard untoldCount.load(ordering: .acquiring) > 0 else { return false }
        return untold.withLock { $0.files[number] != nil || $0.inHand[number] != nil }
    }

    /// Called before attributes are answered. Waits briefly for the helper if the kernel's time is behind.
    func waitUntilTold(_ number: UInt64, asking thread: Int32) {
        guard isBehind(number), !calls.isOwn(thread) else { return }
        waits.run {
            untold.withLock { $0.hurries += 1 }
            let told = Gate()
            calls.helper.add { [self] in
                tell()
                told.open()
            }
            let start = monotonicNanoseconds()
            var now = start
            while !told.wait(until: now + Self.callPatience), nanoseconds(from: start, to: now) < Self.patience {
                now = monotonicNanoseconds()
                if isStuck(number, at: now) { break }
            }
            untold.withLock { $0.hurries -= 1 }
        }
    }

    /// Whether the helper waits for the lock of this file's inode.
    private func isStuck(_ number: UInt64, at now: UInt64) -> Bool {
        untold.withLock { untold in
            guard let call = untold.call, call.number == number else { return false }
            return nanoseconds(from: call.since, to: now) >= Self.callPatience
        }
    }

    // MARK: what the kernel sends

    /// Called after `thread` changed a name or an attribute of the file, which makes the kernel send its time.
    /// - Parameter attributes: the file's, from just before a change of names.
    func namesChanged(of node: Node, by thread: Int32, _ attributes: ProtectedVolume.Attributes? = nil) {
        guard isKernels, node.kind == .file else { return }
        due.withLock { due in
            due.changes += 1
            // Taken out and put back, because a change in place allocates.
            var threads = due.threads[node.number] ?? ShortList()
            threads.removeFirst { $0.thread == thread }
            threads.append(
                Due.Change(
                    thread: thread, number: due.changes, attributes: attributes, time: monotonicNanoseconds()))
            due.threads[node.number] = threads
            dueCount.store(due.threads.count, ordering: .releasing)
        }
    }

    /// The answer to the SETATTR that follows a change of names, if the store has the time that it repeats: no call to the store.
    ///
    /// The kernel does not look at the answer (`fuse_flush_times`). A killed program can leave the note to another one that gets its
    /// thread's number, so the attributes are from the last moment only, and are answered as good for no look.
    func repeated(
        _ changes: AttributeChanges, of node: Node, by thread: Int32
    ) -> ProtectedVolume.Attributes? {
        guard dueCount.load(ordering: .acquiring) > 0, changes.isModificationOnly,
            case .set(let time) = TimeChange(changes.modified), volume.hasTime(node, time), !isBehind(node.number)
        else { return nil }
        let now = monotonicNanoseconds()
        let change = due.withLock { due in
            due.threads[node.number]?.first {
                $0.thread == thread && nanoseconds(from: $0.time, to: now) < Self.patience
            }
        }
        guard let attributes = change?.attributes, settle(node.number, thread) else { return nil }
        return attributes
    }

    /// Called for each SETATTR. Removes a time that must not be stored.
    /// - Returns: whether the kernel sends its own time, after a change of the file's names or attributes.
    /// - Throws: `.refused(.ECANCELED)` to the helper if a program has set a time meanwhile.
    func receive(
        _ changes: inout AttributeChanges, for node: Node, _ file: OpenFile?, throughHandle: Bool, from thread: Int32
    ) throws(VolumeError) -> Bool {
        // Before the kernel passes the helper's times on, it sends the one that it keeps itself, if a truncation or a write through
        // the cache has moved that (`write_inode_now` in `fuse_do_setattr`). The helper sets both times.
        let isForHelper = calls.helper.isHelper(thread) && changes.accessed == nil
        var isKernelsOwn = settle(node.number, thread) || isForHelper
        if calls.helper.isHelper(thread) { changes.accessed = nil }
        guard let modified = changes.modified else { return isKernelsOwn }
        let times = [file?.time].compactMap { $0 } + notedTimes(node.number)
        if times.contains(where: { $0.isUntold }) {
            isKernelsOwn = isKernelsOwn || throughHandle && changes.accessed == nil && isOlder(modified, node)
            if isKernelsOwn {
                changes.modified = nil
                return true
            }
        }
        let wasUntold = times.map { $0.settle() }.contains(true)
        if calls.helper.isHelper(thread), !wasUntold, !isForHelper { throw .refused(Errno(rawValue: 125)) }
        return isKernelsOwn
    }

    /// Whether a time is from before the last change of the content. If it comes alone and through a handle, the kernel sends the
    /// time that it keeps, at a close or a sync (`fuse_flush_times`).
    private func isOlder(_ time: AttributeChanges.Time, _ node: Node) -> Bool {
        guard case .at(let time) = time, let stored = try? volume.attributes(of: node).modified else { return false }
        return (time.seconds, time.nanoseconds) < (stored.seconds, stored.nanoseconds)
    }

    /// Called before an open for `thread`. Clears the error that the kernel may keep from a killed program.
    ///
    /// An open that truncates skips this, because the kernel then holds the inode's lock, which closing takes. If the helper
    /// cannot open the file in time, the next open tries again.
    func clearError(of node: Node, for thread: Int32) {
        let counted = node.protectionClass ?? .complete
        guard !calls.isOwn(thread), let last = lastChange(node.number),
            Access.isAllowed(.open, class: counted, state: volume.keys.state(of: counted))
        else { return }
        waits.run {
            guard calls.helper.openAndClose(node, until: monotonicNanoseconds() + 2_000_000_000) else { return }
            forget(node.number, until: last)
        }
    }

    /// Called when the kernel has forgotten the file.
    func forget(_ number: UInt64) { forget(number, until: .max) }

    // MARK: notes

    private func add(_ time: UntoldTime, to untold: inout Untold) {
        untold.files[time.node.number] = time
        untoldCount.store(untold.files.count + untold.inHand.count, ordering: .releasing)
    }

    /// The times that were noted. The open file of the writes may have been closed by now, and opened again.
    private func notedTimes(_ number: UInt64) -> [UntoldTime] {
        guard untoldCount.load(ordering: .acquiring) > 0 else { return [] }
        return untold.withLock { [$0.inHand[number], $0.files[number]].compactMap { $0 } }
    }

    /// Sets the times of all noted files through the mount. Runs on the helper's thread.
    private func tell() {
        let times = untold.withLock { untold in
            untold.inHand = untold.files
            defer { untold.files = [:] }
            return untold.files.values.filter { $0.isUntold }
        }
        defer {
            untold.withLock { untold in
                untold.inHand = [:]
                untoldCount.store(untold.files.count, ordering: .releasing)
            }
        }
        for time in times {
            // The path is wrong if a rename comes between looking it up and the call.
            untold.withLock { $0.call = (time.node.number, monotonicNanoseconds()) }
            for _ in 0..<Self.mostTries { if tell(time.node) { break } }
            untold.withLock { $0.call = nil }
            // The time was told, was replaced by a program's own time, or the file is out of reach. In every case nothing is
            // left to tell.
            _ = time.settle()
        }
    }

    /// True if the time is told or the file cannot be reached. False if its path has changed meanwhile.
    private func tell(_ node: Node) -> Bool {
        calls.helper.reach(node) { [volume] mount, path in
            guard let time = try? volume.attributes(of: node).modified else { return true }
            return (try? mount.setModified(path, time)) != nil || volume.path(of: node) == path
        } ?? true
    }

    /// Called when the SETATTR that follows a change by `thread` has come. Returns whether one was due.
    private func settle(_ number: UInt64, _ thread: Int32) -> Bool {
        guard dueCount.load(ordering: .acquiring) > 0 else { return false }
        return due.withLock { due in
            guard var threads = due.threads[number], threads.removeFirst(where: { $0.thread == thread }) != nil else {
                return false
            }
            due.threads[number] = threads.isEmpty ? nil : threads
            dueCount.store(due.threads.count, ordering: .releasing)
            return true
        }
    }

    /// The last change of the file whose SETATTR has not come. Nil if all have come.
    private func lastChange(_ number: UInt64) -> UInt64? {
        guard dueCount.load(ordering: .acquiring) > 0 else { return nil }
        return due.withLock { $0.threads[number]?.last?.number }
    }

    /// Forgets the changes of the file up to `change`.
    private func forget(_ number: UInt64, until change: UInt64) {
        guard dueCount.load(ordering: .acquiring) > 0 else { return }
        due.withLock { due in
            guard var threads = due.threads[number] else { return }
            while threads.removeFirst(where: { $0.number <= change }) != nil {}
            due.threads[number] = threads.isEmpty ? nil : threads
            dueCount.store(due.threads.count, ordering: .releasing)
        }
    }
}

/// Whether a direct write through the handles of one open file, or a truncation, has moved a time that the kernel does not know yet.
/// Only `FileTimes` changes it.
final class UntoldTime: Sendable {
    let node: Node
    private let flag = Atomic(false)

    init(of node: Node) { self.node = node }

    fileprivate var isUntold: Bool { flag.load(ordering: .acquiring) }

    /// Notes it. True if it was not noted before.
    fileprivate func note() -> Bool { !flag.exchange(true, ordering: .acquiringAndReleasing) }

    /// Called when the time is told, or a program has set another. True if it was noted.
    fileprivate func settle() -> Bool { flag.exchange(false, ordering: .acquiringAndReleasing) }
}
