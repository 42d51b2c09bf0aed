// Per-thread locked memory for the state of running hashes and ciphers, which includes key material.

internal import CLibrary
internal import CSodium

/// One slot of locked memory per thread. It is wiped and given back when the thread ends.
///
/// Code that uses it wipes its data before it returns, and never nests.
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

    /// This thread's slot. If the limit of locked memory is reached at its first use, the process ends: there are as few slots
    /// as threads, and the callers cannot fail.
    static func pointer() -> UnsafeMutableRawPointer {
        do {
            return try unsafe prepared()
        } catch {
            fatalError("no locked memory left for this thread: \(error)")
        }
    }

    /// Takes the slot before a path that cannot fail. Throws the reason if there is none.
    static func prepared() throws(SodiumError) -> UnsafeMutableRawPointer {
        if let slot = unsafe pthread_getspecific(key) { return unsafe slot }
        let slot = try Slots.scratch.take()
        let result = unsafe pthread_setspecific(key, slot.pointer)
        precondition(result == 0, "pthread_setspecific failed")
        return unsafe slot.pointer
    }
}
