// Locks of programs on a shared mount. Each is taken on the store's file, so that programs of other machines see it.

internal import BackingStore
internal import FileContents
internal import FuseBridge
internal import HostSystem
internal import ProtectedVolume
internal import Synchronization

/// The locks that programs hold with fcntl(2) and flock(2), and the threads that wait for one.
///
/// The store knows the owner of a lock by the open file description (`HostFile+Locks.swift`), so every owner of locks on a file
/// has a description of its own. It is closed when the kernel says that the owner has closed the file, or when this process
/// dies, and the locks go with it.
///
/// A worker never waits for a lock. A thread of its own waits in the store, where the waiters of all machines are in one queue.
final class StoreLocks: Sendable {
    /// The owner of locks on a file: a process or an open file, by the kernel's number.
    struct Owner: Hashable, Sendable {
        let node: UInt64
        let number: UInt64
    }
    private struct Holder: Sendable {
        let file: BackingFile
        /// The handle that the description was opened for. The kernel names no owner when an open file is closed.
        let handle: UInt64
        /// The lock of flock(2).
        var whole = StoreLock.none
    }
    /// More programs than these are refused (ENOLCK), so that the daemon does not run out of threads.
    private static let mostWaiting = 256

    private let holders = Lock([Owner: Holder]())
    private let waiting = Lock([ObjectIdentifier: InterruptibleCall]())
    private let serials = Atomic<UInt64>(0)
    private let interrupts = JobQueue(name: "pfs-unlock")

    /// The owner's description of the file; nil if it has none, and none is to be made.
    func file(of owner: Owner, for file: OpenFile, _ handle: UInt64, makes: Bool) throws(Errno) -> BackingFile? {
        if let known = holders.withLock({ $0[owner]?.file }) { return known }
        guard makes else { return nil }
        let made: BackingFile
        do throws(Errno) { made = try file.content.backing.openFile(.readWrite) } catch {
            made = try file.content.backing.openFile(.readOnly)
        }
        return holders.withLock { holders in
            if let known = holders[owner]?.file { return known }
            holders[owner] = Holder(file: made, handle: handle)
            return made
        }
    }

    /// The lock that the owner holds with flock(2).
    func wholeLock(of owner: Owner) -> StoreLock { holders.withLock { $0[owner]?.whole ?? .none } }

    /// Notes the lock that the owner now holds with flock(2).
    func noteWhole(_ kind: StoreLock, of owner: Owner) { holders.withLock { $0[owner]?.whole = kind } }

    /// The owner has closed the file. A process loses its locks on a file when it closes any of its descriptors.
    func closed(_ owner: Owner) {
        let ended = holders.withLock { $0.removeValue(forKey: owner) }
        _ = ended
    }

    /// An open file is closed for good.
    func released(_ handle: UInt64, _ node: UInt64) {
        let ended = holders.withLock { holders in
            let owners = holders.filter { $0.key.node == node && $0.value.handle == handle }.map(\.key)
            return owners.compactMap { holders.removeValue(forKey: $0) }
        }
        _ = ended
    }

    /// A number for the next handle.
    func nextSerial() -> UInt32 { UInt32(serials.add(1, ordering: .relaxed).newValue & 0xFF_FFFF) }

    // MARK: waiting

    /// Waits for a lock in a thread of its own.
    /// - Parameter done: gets the reply and the result, which is EINTR if a signal has reached the program.
    func wait(
        for kind: StoreLock, _ range: ClosedRange<UInt64>, of file: BackingFile, _ reply: consuming Reply,
        done: @escaping @Sendable (consuming Reply, Errno?) -> Void
    ) {
        guard waiting.withLock({ $0.count }) < Self.mostWaiting else { return done(reply, .ENOLCK) }
        let wait = InterruptibleCall()
        waiting.withLock { $0[ObjectIdentifier(wait)] = wait }
        let parked = WaitingReply(reply) { [self] in cancel(wait) }
        let thread = BackgroundThread(name: "pfs-lock", stackSize: 256 << 10, receiving: InterruptibleCall.signal) {
            [self] in
            let error = wait.run { () throws(Errno) in try file.setLock(kind, range, waits: true) }
            waiting.withLock { $0[ObjectIdentifier(wait)] = nil }
            if let reply = parked.take() { done(reply, error) }
        }
        if thread == nil {
            wait.giveUp()
            waiting.withLock { $0[ObjectIdentifier(wait)] = nil }
            if let reply = parked.take() { done(reply, .ENOLCK) }
        }
    }

    /// Makes a thread stop waiting. Another thread does it, because the signal must be repeated until it has an effect.
    private func cancel(_ wait: InterruptibleCall) {
        wait.cancel()
        interrupts.add {
            while !wait.isDone {
                wait.wake()
                sleep(milliseconds: 1)
            }
        }
    }

    /// Ends all waits, when the mount has ended.
    func stop() {
        for wait in waiting.withLock({ Array($0.values) }) { cancel(wait) }
        while waiting.withLock({ !$0.isEmpty }) { sleep(milliseconds: 1) }
        interrupts.stop()
        let all = holders.withLock { holders in
            defer { holders = [:] }
            return holders
        }
        _ = all
    }
}
