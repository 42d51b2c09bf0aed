// io_uring(7) of one thread, for the commands of FUSE.

internal import CLibrary
internal import CLinuxShim

/// A ring that only the thread that has made it uses. It has no descriptor. The kernel writes to the memory of entries only
/// during `submit` and `wait`, so between them the thread may change that memory.
@safe struct Ring: ~Copyable {
    private var ring = unsafe pfs_ring()

    /// Whether the system allows it to this process.
    static var canBeMade: Bool {
        guard let ring = Ring() else { return false }
        _ = consume ring
        return true
    }

    /// Nil if the system refuses io_uring to this process.
    init?() {
        guard unsafe pfs_ring_open(&ring) == 0 else { return nil }
    }

    deinit {
        var ring = unsafe self.ring
        unsafe pfs_ring_close(&ring)
    }

    /// Queues the registration of an entry with a queue of `device`.
    mutating func queueRegistration(_ entry: borrowing RingEntry, device: Int32, queue: UInt16) {
        unsafe pfs_ring_queue(&ring, device, queue, 0, entry.registered)
    }

    /// Queues the answer to a request, which also asks for the next one.
    mutating func queueAnswer(device: Int32, queue: UInt16, number: UInt64) {
        unsafe pfs_ring_queue(&ring, device, queue, number, nil)
    }

    /// Gives the kernel what is queued. The kernel has read the answer when it returns.
    mutating func submit() {
        while unsafe pfs_ring_has_queued(&ring) != 0, unsafe pfs_ring_enter(&ring, 0, nil) <= 0 { usleep(500) }
    }

    /// Gives the kernel what is queued, and waits for a completion; its result. Nil if a signal that `mask` lets through came
    /// first.
    mutating func wait(_ mask: sigset_t) -> Int32? {
        if let result = completion() { return result }
        var mask = mask
        let result = unsafe pfs_ring_enter(&ring, 1, &mask)
        if result < 0, result != -EINTR { usleep(500) }
        return completion()
    }

    /// The result of a completion that has come.
    mutating func completion() -> Int32? {
        var result: Int32 = 0
        return unsafe pfs_ring_take(&ring, &result) != 0 ? result : nil
    }
}
