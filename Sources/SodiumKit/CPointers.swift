// Buffers for the C libraries, which must never get a null pointer, even for no bytes.

extension UnsafeRawBufferPointer {
    /// The first byte. For an empty buffer, an address that is never read.
    var bytes: UnsafePointer<UInt8> {
        unsafe baseAddress?.assumingMemoryBound(to: UInt8.self) ?? UnsafePointer(nowhere)
    }
}

extension UnsafeMutableRawBufferPointer {
    /// The first byte. For an empty buffer, an address that is never read or written.
    var bytes: UnsafeMutablePointer<UInt8> {
        unsafe baseAddress?.assumingMemoryBound(to: UInt8.self) ?? nowhere
    }
}

/// One byte that is used for empty buffers. Every call passes a length of zero with it.
nonisolated(unsafe) private let nowhere = UnsafeMutablePointer<UInt8>.allocate(capacity: 1)
