// Buffers as the C libraries want them: never a null pointer, even for no bytes.

extension UnsafeRawBufferPointer {
    /// The first byte; of an empty buffer, an address that nobody reads.
    var bytes: UnsafePointer<UInt8> {
        unsafe baseAddress?.assumingMemoryBound(to: UInt8.self) ?? UnsafePointer(nowhere)
    }
}

extension UnsafeMutableRawBufferPointer {
    /// The first byte; of an empty buffer, an address that nobody reads or writes.
    var bytes: UnsafeMutablePointer<UInt8> {
        unsafe baseAddress?.assumingMemoryBound(to: UInt8.self) ?? nowhere
    }
}

/// One byte that stands for empty buffers. Every call gives a length of zero with it.
nonisolated(unsafe) private let nowhere = UnsafeMutablePointer<UInt8>.allocate(capacity: 1)
