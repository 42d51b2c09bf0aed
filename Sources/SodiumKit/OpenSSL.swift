// OpenSSL's libcrypto: AES-256-GCM on processors that IPsec-MB has no code for.

internal import CLibrary
internal import COpenSSL

/// AES-256-GCM by libcrypto, with one context per thread in locked memory.
///
/// libcrypto makes a context itself, so one for each key would have to be shared, and copied for each block. A thread's context
/// has an expanded key only while it encrypts or decrypts one block.
enum OpenSSL {
    /// Bytes of a context, aligned to 64. OpenSSL 3.0 takes 1,152.
    static let contextSize = 2048

    /// False if libcrypto cannot be used: see `pfs_gcm_prepare`.
    static let isAvailable: Bool = pfs_gcm_prepare() == 1

    private static let key: pthread_key_t = {
        var key = pthread_key_t()
        let result = unsafe pthread_key_create(&key) { context in
            if let context = unsafe context { Slots.contexts.release(unsafe Slot(pointer: context)) }
        }
        precondition(result == 0, "pthread_key_create failed")
        return key
    }()

    /// Makes this thread's context, if there is none yet. Throws if there is no locked memory for it.
    static func prepareThread() throws(SodiumError) {
        _ = try unsafe preparedContext()
    }

    /// Encrypts `count` bytes and writes the 16-byte tag.
    static func seal(
        key: UnsafePointer<UInt8>, _ output: UnsafeMutablePointer<UInt8>, _ input: UnsafePointer<UInt8>, count: Int,
        nonce: UnsafePointer<UInt8>, associatedData: UnsafeRawBufferPointer, tag: UnsafeMutablePointer<UInt8>
    ) {
        let isDone = unsafe pfs_gcm_seal(
            context(), key, nonce, associatedData.bytes, associatedData.count, input, count, output, tag)
        precondition(isDone == 1, "libcrypto failed")
    }

    /// Decrypts `count` bytes. If the tag is wrong, the output is undefined and the result false.
    static func open(
        key: UnsafePointer<UInt8>, _ output: UnsafeMutablePointer<UInt8>, _ input: UnsafePointer<UInt8>, count: Int,
        nonce: UnsafePointer<UInt8>, associatedData: UnsafeRawBufferPointer, tag: UnsafePointer<UInt8>
    ) -> Bool {
        unsafe pfs_gcm_open(
            context(), key, nonce, associatedData.bytes, associatedData.count, input, count, output, tag) == 1
    }

    /// This thread's context. If there is no locked memory for it at its first use, the process ends, as it does for
    /// `ThreadScratch`.
    static func context() -> UnsafeMutableRawPointer {
        do {
            return try unsafe preparedContext()
        } catch {
            fatalError("no locked memory left for this thread: \(error)")
        }
    }

    private static func preparedContext() throws(SodiumError) -> UnsafeMutableRawPointer {
        if let context = unsafe pthread_getspecific(key) { return unsafe context }
        precondition(isAvailable, "libcrypto has no AES-256-GCM")
        let slot = try Slots.contexts.take()
        guard unsafe pfs_gcm_make_context(slot.pointer, contextSize) == 1 else {
            fatalError("this libcrypto needs more than \(contextSize) bytes for a context")
        }
        let result = unsafe pthread_setspecific(key, slot.pointer)
        precondition(result == 0, "pthread_setspecific failed")
        return unsafe slot.pointer
    }
}
