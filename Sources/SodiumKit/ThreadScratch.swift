// Per-thread locked memory for the working state of hashes and ciphers, which holds key material while they run.

internal import CSodium
internal import Glibc

/// One slot of locked memory per thread, given back and wiped when the thread ends.
///
/// Its users wipe what they put there before they return; they never nest.
enum ThreadScratch {
    /// Bytes of a slot, aligned to 64.
    static let size = 1024

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        let result = unsafe pthread_key_create(&key) { slot in
            if let slot = unsafe slot { Slots.scratch.release(unsafe Slot(pointer: slot)) }
        }
        precondition(result == 0, "pthread_key_create failed")
        return key
    }()

    /// This thread's slot. A first use that finds the limit of locked memory reached ends the process: there are as few
    /// slots as threads, and the callers are on paths that cannot fail.
    static func pointer() -> UnsafeMutableRawPointer {
        do {
            return try unsafe prepared()
        } catch {
            fatalError("no locked memory left for this thread: \(error)")
        }
    }

    /// The same before a path that cannot fail: takes the slot, or says why there is none.
    static func prepared() throws(SodiumError) -> UnsafeMutableRawPointer {
        if let slot = unsafe pthread_getspecific(key) { return unsafe slot }
        let slot = try Slots.scratch.take()
        let result = unsafe pthread_setspecific(key, slot.pointer)
        precondition(result == 0, "pthread_setspecific failed")
        return unsafe slot.pointer
    }
}
