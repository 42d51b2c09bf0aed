// Queues work for other threads that a request's handler may not do itself, because it would wait for its own mount.

internal import FuseBridge
internal import HostSystem
internal import ProtectedVolume

/// The threads that notify the kernel, call our own mount and write late records. A notification may block until the kernel has
/// written back. None of these threads holds a lock of ours meanwhile.
final class DeferredCalls: Sendable {
    let limits: WorkerLimits
    /// Calls on our own mount that take an inode's lock in the kernel.
    let helper: MountHelper
    /// Has the kernel write back what programs have written.
    let flusher = Flusher()
    /// Drops pages: those that a lock drops, and those that come after it.
    let evictor: Evictor
    private let volume: Volume
    private let place: Lock<Session?>
    private let notifier = JobQueue(name: "pfs-notifier")
    private let late = JobQueue(name: "pfs-late")
    private let pages: PageDrops

    init(_ volume: Volume, limits: WorkerLimits) {
        self.volume = volume
        self.limits = limits
        let place = Lock<Session?>(nil)
        self.place = place
        helper = MountHelper(volume)
        evictor = Evictor { number in place.withLock { $0 }?.invalidate(node: number) }
        pages = PageDrops { number, offset, count in
            place.withLock { $0 }?.invalidate(node: number, at: offset, count: count)
        }
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

    /// Called when the mount has ended. Waits for the calls that are running.
    func end() {
        notifier.stop()
        pages.stop()
        helper.end()
        late.stop()
        flusher.end()
        evictor.stop()
        place.withLock { $0 = nil }
    }

    private var session: Session? { place.withLock { $0 } }

    /// Whether direct handles can be mapped shared.
    var allowsDirectMapping: Bool { session?.allowsDirectMapping ?? false }

    /// Whether requests of this thread come from this process itself.
    func isOwn(_ thread: Int32) -> Bool { helper.isHelper(thread) || flusher.isOwn(thread) }

    /// Waits until this process does not use its own mount, so that it can be unmounted, or until `deadline`.
    func settle(until deadline: UInt64) {
        helper.settle(until: deadline)
        flusher.settle(until: deadline)
    }

    // MARK: notifications

    /// Queues a notification that drops the pages and attributes of an inode after its dirty pages have been written back.
    func invalidate(_ number: UInt64) { evictor.add([number]) }

    /// Whether `dropPages` works.
    var canDropPages: Bool { pages.canWork }

    /// Queues a notification that drops the pages of a part of a file, and calls `then` after it. It may wait for reads of these
    /// pages, and for dirty ones to be written back.
    func dropPages(of number: UInt64, at offset: UInt64, count: Int, then: @escaping @Sendable () -> Void) {
        pages.add(number, at: offset, count: count, then: then)
    }

    /// The same for a direct request, which keeps one of the kernel's places while it waits.
    ///
    /// - Returns: false if too many wait. Nothing is queued then.
    func dropPages(
        of number: UInt64, at offset: UInt64, count: Int, for waiter: PageDrops.Waiter,
        then: @escaping @Sendable () -> Void
    ) -> Bool {
        guard pages.mayWait(waiter) else { return false }
        pages.add(number, at: offset, count: count) { [pages] in
            pages.hasWaited(waiter)
            then()
        }
        return true
    }

    /// The same when nobody waits for it.
    func dropPagesLater(of number: UInt64, at offset: UInt64, count: Int) {
        pages.addLater(number, at: offset, count: count)
    }

    /// Queues a notification that makes the kernel ask for the attributes of an inode again.
    func invalidateAttributes(_ number: UInt64) {
        notifier.add { [self] in session?.invalidateAttributes(node: number) }
    }

    /// The same, and then runs `body`.
    func invalidateAttributes(_ number: UInt64, then body: @escaping @Sendable () -> Void) {
        notifier.add { [self] in
            session?.invalidateAttributes(node: number)
            body()
        }
    }

    /// Makes the kernel ask for the attributes of an inode again, at once. The kernel takes no lock for it that a program may
    /// hold. Do not call it from a handler.
    func forgetAttributesNow(_ number: UInt64) { session?.invalidateAttributes(node: number) }

    /// Makes the kernel look a name up again and drop the cached data of its inode. False if `deadline` passes first.
    func forget(_ name: [UInt8], in parent: UInt64, _ number: UInt64, until deadline: UInt64) -> Bool {
        notifier.perform(until: deadline) { [self] in
            session?.invalidateEntry(parent: parent, name: name)
            session?.invalidate(node: number)
        }
    }

    /// Queues notifications that make the kernel list a directory again, and look all names in it up again. With a directory's
    /// own name it drops those below, too.
    func forgetNames(in directory: Node) {
        notifier.add { [self] in
            session?.invalidate(node: directory.number)
            guard let (parent, name) = volume.shownPlace(of: directory) else { return }
            session?.invalidateEntry(parent: parent.number, name: name)
        }
    }

    // MARK: late records

    /// Called after a page became a late record. Queues the write of the record to the store and the drop of the page.
    func keepLateRecords(of number: UInt64) {
        persistLateRecords()
        invalidate(number)
        wipeBuffersSoon()
    }

    /// Queues the write of late records from memory to the store.
    func persistLateRecords() {
        late.add { [volume] in try? volume.persistLateRecords() }
    }

    /// Runs the store writes and waits until `deadline` at most. The writes continue after it.
    func beforeKeysGo(until deadline: UInt64, _ body: @escaping @Sendable () -> Void) {
        _ = late.perform(until: deadline, body)
    }

    // MARK: buffers

    /// Makes every worker wipe the data of earlier requests from its buffer. False if `deadline` passes first.
    func wipeBuffers(until deadline: UInt64) -> Bool { session?.wipeBuffers(until: deadline) ?? true }

    /// Queues the same for soon without waiting, so a handler may call it.
    func wipeBuffersSoon() { session?.askForWipe() }
}
