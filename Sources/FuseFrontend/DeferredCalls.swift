// What a request's handler may not do itself, because it would wait for its own mount: queued for other threads.

internal import FuseBridge
internal import HostSystem
internal import ProtectedVolume

/// Threads that notify the kernel (and may block until it has written back), that call the own mount, and that write late
/// records. None holds a lock of ours meanwhile.
final class DeferredCalls: Sendable {
    let limits: WorkerLimits
    /// Calls on the own mount that take an inode's lock in the kernel.
    let helper: MountHelper
    /// Has the kernel write back what programs have written.
    let flusher = Flusher()
    /// Drops pages: the lock's, and of those that come after it.
    let evictor: Evictor
    private let volume: Volume
    private let place: Lock<Session?>
    private let notifier = JobQueue(name: "pfs-notifier")
    private let late = JobQueue(name: "pfs-late")

    init(_ volume: Volume, limits: WorkerLimits) {
        self.volume = volume
        self.limits = limits
        let place = Lock<Session?>(nil)
        self.place = place
        helper = MountHelper(volume)
        evictor = Evictor { number in place.withLock { $0 }?.invalidate(node: number) }
    }

    /// From here on the kernel can be notified.
    func begin(_ session: Session) {
        place.withLock { $0 = session }
        flusher.begin(session, volume)
    }

    /// From here on the mount can be called, too.
    func begin(_ mount: MountClient) {
        helper.begin(mount)
        flusher.begin(mount)
    }

    /// The mount has ended; waits for the calls in hand.
    func end() {
        notifier.stop()
        helper.end()
        late.stop()
        flusher.end()
        evictor.stop()
        place.withLock { $0 = nil }
    }

    private var session: Session? { place.withLock { $0 } }

    /// Whether requests of this thread come from this process itself.
    func isOwn(_ thread: Int32) -> Bool { helper.isHelper(thread) || flusher.isOwn(thread) }

    /// Waits until the own mount is not in use, so that it can be unmounted; at most until `deadline`.
    func settle(until deadline: UInt64) {
        helper.settle(until: deadline)
        flusher.settle(until: deadline)
    }

    // MARK: notifications

    /// Queues that the pages and attributes of an inode are dropped, after what is dirty has been written back.
    func invalidate(_ number: UInt64) { evictor.add([number]) }

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

    // MARK: late records

    /// A late record was made of a page: queues that it is written to the store, and that the page is dropped.
    func keepLateRecords(of number: UInt64) {
        persistLateRecords()
        invalidate(number)
        wipeBuffersSoon()
    }

    /// Queues that late records which wait in memory are written to the store.
    func persistLateRecords() {
        late.add { [volume] in try? volume.persistLateRecords() }
    }

    /// Runs what writes to the store, and waits until `deadline` at most; it goes on all the same.
    func beforeKeysGo(until deadline: UInt64, _ body: @escaping @Sendable () -> Void) {
        _ = late.perform(until: deadline, body)
    }

    // MARK: buffers

    /// Has every worker wipe what requests left in its buffer; false when `deadline` passes first.
    func wipeBuffers(until deadline: UInt64) -> Bool { session?.wipeBuffers(until: deadline) ?? true }

    /// The same, soon, and without waiting: from a handler.
    func wipeBuffersSoon() { session?.askForWipe() }
}
