// What request handlers may not do themselves: notify the kernel, and call the own mount.

internal import FuseBridge
internal import Keybag
internal import HostSystem
internal import ProtectedVolume
internal import Synchronization
internal import VolumeFormat

/// Threads that notify (and may block until the kernel has written back), one that calls the own mount (and may block behind
/// a program that holds an inode's lock), one that writes late records. None holds a lock of ours meanwhile.
final class Errands: Sendable {
    private struct Times: Sendable {
        var files: [UInt64: OpenFile] = [:]
        /// Those that the helper is telling just now.
        var inHand: [UInt64: OpenFile] = [:]
        var hurries = 0
    }
    private struct Place: Sendable {
        var session: Session?
        var volume: Volume?
        var mount: OwnMount?
    }
    let limits: WorkerLimits
    var workers: Int { limits.workers }
    private let place = Lock(Place())
    let flusher = Flusher()
    private let notifier = JobQueue(name: "pfs-notifier")
    private let helper = JobQueue(name: "pfs-helper")
    private let late = JobQueue(name: "pfs-late")
    /// Drops pages: the lock's, and of those that come after it.
    let evictor: Evictor
    private let helperNumber = Atomic<Int32>(0)
    private let times = Lock(Times())
    /// Files in `times`, so that nobody takes its lock where there are none.
    private let untold = Atomic<Int>(0)

    init(limits: WorkerLimits) {
        self.limits = limits
        let place = place
        evictor = Evictor { number in place.withLock { $0.session }?.invalidate(node: number) }
        helper.add { [self] in helperNumber.store(BackgroundThread.currentNumber, ordering: .relaxed) }
    }

    /// From here on there is a mount to work on.
    func begin(_ session: Session, _ volume: Volume) {
        place.withLock { $0 = Place(session: session, volume: volume) }
        flusher.begin(session, volume)
    }

    /// From here on it can be called, too.
    func begin(_ mount: OwnMount) {
        place.withLock { $0.mount = mount }
        flusher.begin(mount)
    }

    /// The mount has ended; waits for the errand in hand.
    func end() {
        notifier.stop()
        helper.stop()
        late.stop()
        flusher.end()
        evictor.stop()
        place.withLock { $0 = Place() }
    }

    /// Whether requests of this thread come from this process itself.
    func isOwn(_ process: Int32) -> Bool { isHelper(process) || flusher.isOwn(process) }

    /// Whether it is the helper, which tells times.
    func isHelper(_ process: Int32) -> Bool { process == helperNumber.load(ordering: .relaxed) }

    // MARK: notifying

    /// Queues that the pages and attributes of an inode are dropped, after what is dirty has been written back.
    func invalidate(_ number: UInt64) { evictor.add([number]) }

    /// A late record was made of a page: queues that it is written to the store, and that the page is dropped.
    func keepLateRecords(of number: UInt64) {
        persistLateRecords()
        invalidate(number)
        wipeBuffersSoon()
    }

    /// Queues that late records which wait in memory are written to the store.
    func persistLateRecords() {
        late.add { [self] in try? place.withLock { $0.volume }?.persistLateRecords() }
    }

    /// Queues that the attributes of an inode are asked for again.
    func invalidateAttributes(_ number: UInt64) {
        notifier.add { [self] in session?.invalidateAttributes(node: number) }
    }

    /// Has the attributes of an inode asked for again, at once. The kernel takes no lock for it that a program may hold; not
    /// from a handler.
    func forgetAttributesNow(_ number: UInt64) { session?.invalidateAttributes(node: number) }

    /// Has a name looked up again and what is cached of its inode dropped; false when `deadline` passes first.
    func forget(_ name: [UInt8], in parent: UInt64, _ number: UInt64, until deadline: UInt64) -> Bool {
        notifier.perform(until: deadline) { [self] in
            session?.invalidateEntry(parent: parent, name: name)
            session?.invalidate(node: number)
        }
    }

    /// Runs what writes to the store, and waits until `deadline` at most; it goes on all the same.
    func beforeKeysGo(until deadline: UInt64, _ body: @escaping @Sendable () -> Void) {
        _ = late.perform(until: deadline, body)
    }

    /// Has every worker wipe what requests left in its buffer; false when `deadline` passes first.
    func wipeBuffers(until deadline: UInt64) -> Bool {
        session?.wipeBuffers(until: deadline) ?? true
    }

    /// The same, soon, and without waiting: from a handler.
    func wipeBuffersSoon() {
        session?.askForWipe()
    }

    /// Waits until the own mount is left alone, so that it can be unmounted; at most until `deadline`.
    func settle(until deadline: UInt64) {
        _ = helper.perform(until: deadline) {}
        flusher.settle(until: deadline)
    }

    private var session: Session? { place.withLock { $0.session } }

    // MARK: the own mount

    /// Waits behind the writers of `nodes`, until `deadline` at most. An unlinked file cannot be reached.
    func touch(_ nodes: [Node], until deadline: UInt64) {
        _ = helper.perform(until: deadline) { [self] in
            let (mount, volume) = place.withLock { ($0.mount, $0.volume) }
            guard let mount, let volume else { return }
            for node in nodes where monotonicNanoseconds() < deadline {
                if let path = volume.path(of: node) { mount.touch(path) }
            }
        }
    }

    /// Opens the file and closes it, which says the error that the kernel keeps of it to nobody who minds; false where that
    /// is not known to have come about by `deadline`.
    func openAndClose(_ node: Node, until deadline: UInt64) -> Bool {
        let isDone = Atomic(false)
        let isOver = helper.perform(until: deadline) { [self] in
            let (mount, volume) = place.withLock { ($0.mount, $0.volume) }
            guard let mount, let path = volume?.path(of: node) else { return }
            isDone.store(mount.openAndClose(path), ordering: .releasing)
        }
        return isOver && isDone.load(ordering: .acquiring)
    }

    /// Has the kernel ask for the attributes of `nodes`, and take what is queued before that. Waits until `deadline` at most;
    /// of many files the rest is done in the background, among the helper's other work.
    func look(at nodes: [Node], until deadline: UInt64) {
        var rest = nodes[...]
        repeat {
            let part = rest.prefix(64)
            rest = rest.dropFirst(64)
            let isDone = helper.perform(until: deadline) { [self] in look(part) }
            if !isDone {
                while !rest.isEmpty {
                    let part = rest.prefix(64)
                    rest = rest.dropFirst(64)
                    helper.add { [self] in look(part) }
                }
            }
        } while !rest.isEmpty
        _ = helper.perform(until: deadline) { [self] in place.withLock { $0.mount }?.touch([]) }
    }

    private func look(_ nodes: ArraySlice<Node>) {
        let (mount, volume) = place.withLock { ($0.mount, $0.volume) }
        guard let mount, let volume, volume.keys.state.isLocked else { return }
        for node in nodes {
            if let path = volume.path(of: node) { mount.look(path) }
        }
    }

    /// Has the kernel told the time of a direct write, together with those of the next 20 ms.
    func tellTimeSoon(of file: OpenFile) {
        let isFirst = times.withLock { times in
            defer { note(file, in: &times) }
            return times.files.isEmpty
        }
        guard isFirst else { return }
        helper.add { [self] in
            for _ in 0..<10 where times.withLock({ $0.hurries == 0 }) { sleep(milliseconds: 2) }
            tellTimes()
        }
    }

    /// The same at once.
    func tellTime(of file: OpenFile) {
        times.withLock { note(file, in: &$0) }
        helper.add { [self] in tellTimes() }
    }

    /// Whether the kernel has still to be told of a direct write to a file, open or closed since.
    func hasUntoldTime(_ number: UInt64) -> Bool {
        guard untold.load(ordering: .acquiring) > 0 else { return false }
        return times.withLock { $0.files[number] != nil || $0.inHand[number] != nil }
    }

    /// Whether the helper has a time of the file in mind that is neither told nor overtaken.
    func owesTime(_ number: UInt64) -> Bool {
        guard untold.load(ordering: .acquiring) > 0 else { return false }
        return owing(number).contains { $0.hasUntoldTime }
    }

    /// That time is told, or a program has set another; true when there was one.
    func settleTime(_ number: UInt64) -> Bool {
        guard untold.load(ordering: .acquiring) > 0 else { return false }
        return owing(number).map { $0.timeSettled() }.contains(true)
    }

    /// The file as it was opened for the writes in question: it may be closed by now, and open again.
    private func owing(_ number: UInt64) -> [OpenFile] {
        times.withLock { [$0.inHand[number], $0.files[number]].compactMap { $0 } }
    }

    /// Has all times told that are known by now, and waits until `deadline` at most.
    func tellTimes(until deadline: UInt64) {
        times.withLock { $0.hurries += 1 }
        _ = helper.perform(until: deadline) { [self] in tellTimes() }
        times.withLock { $0.hurries -= 1 }
    }

    private func note(_ file: OpenFile, in times: inout Times) {
        times.files[file.node.number] = file
        untold.store(times.files.count + times.inHand.count, ordering: .releasing)
    }

    private func tellTimes() {
        let files = times.withLock { times in
            times.inHand = times.files
            defer { times.files = [:] }
            return times.files.values.filter { $0.hasUntoldTime }
        }
        defer {
            times.withLock { times in
                times.inHand = [:]
                untold.store(times.files.count, ordering: .releasing)
            }
        }
        let (mount, volume) = place.withLock { ($0.mount, $0.volume) }
        for file in files {
            if let mount, let volume, let path = volume.path(of: file.node),
                let time = try? volume.attributes(of: file.node).modified
            {
                try? mount.setModified(path, time)
            }
            // Told, overtaken by a program's own time, or out of reach: in every case there is nothing left to tell.
            _ = file.timeSettled()
        }
    }
}
