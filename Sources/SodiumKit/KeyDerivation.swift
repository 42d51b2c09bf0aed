// Key derivation and message authentication, both with keyed BLAKE2b.

internal import CSodium

/// Derives the key for one purpose: BLAKE2b-256 keyed with `key` over u8 length of `label` ‖ label ‖ context.
///
/// - Parameter label: includes its prefix `protectfs1/`; at most 255 bytes.
package func deriveKey(
    from key: borrowing SecretKey, label: StaticString, context: Span<UInt8> = Span()
) throws(SodiumError) -> SecretKey {
    try key.withBytes { bytes throws(SodiumError) in
        try deriveKey(fromSecret: bytes, label: label, context: context)
    }
}

/// The same for a secret of another length (16–64 bytes), such as a recovery code's 16.
package func deriveKey(
    fromSecret secret: Span<UInt8>, label: StaticString, context: Span<UInt8> = Span()
) throws(SodiumError) -> SecretKey {
    precondition(secret.count >= 16 && secret.count <= 64)
    precondition(label.utf8CodeUnitCount <= 255)
    var result = try SecretKey()
    result.withMutableBytes { output in
        var hash = BlakeHash(key: secret, outputLength: SecretKey.byteCount)
        hash.update(byte: UInt8(label.utf8CodeUnitCount))
        // A static string's bytes are never freed.
        hash.update(unsafe Span<UInt8>(_unsafeStart: label.utf8Start, byteCount: label.utf8CodeUnitCount))
        hash.update(context)
        hash.finish(into: &output)
    }
    return result
}

/// Keyed BLAKE2b with 16 bytes of output, over the concatenation of the parts.
package func mac128(
    _ key: borrowing SecretKey, _ first: Span<UInt8>, _ second: Span<UInt8> = Span(), _ third: Span<UInt8> = Span(),
    _ fourth: Span<UInt8> = Span()
) -> InlineArray<16, UInt8> {
    var result = InlineArray<16, UInt8>(repeating: 0)
    mac(key, first, second, third, fourth, &result)
    return result
}

/// Keyed BLAKE2b with 32 bytes of output, over the concatenation of the parts.
package func mac256(
    _ key: borrowing SecretKey, _ first: Span<UInt8>, _ second: Span<UInt8> = Span(), _ third: Span<UInt8> = Span(),
    _ fourth: Span<UInt8> = Span()
) -> InlineArray<32, UInt8> {
    var result = InlineArray<32, UInt8>(repeating: 0)
    mac(key, first, second, third, fourth, &result)
    return result
}

/// BLAKE2b without a key, 32 bytes of output (checksums, file names of sockets).
package func hash256(_ first: Span<UInt8>, _ second: Span<UInt8> = Span()) -> InlineArray<32, UInt8> {
    var result = InlineArray<32, UInt8>(repeating: 0)
    var hash = BlakeHash(key: Span<UInt8>(), outputLength: 32)
    hash.update(first)
    hash.update(second)
    var bytes = result.mutableSpan
    hash.finish(into: &bytes)
    return result
}

private func mac<let count: Int>(
    _ key: borrowing SecretKey, _ first: Span<UInt8>, _ second: Span<UInt8>, _ third: Span<UInt8>,
    _ fourth: Span<UInt8>,
    _ result: inout InlineArray<count, UInt8>
) {
    var output = result.mutableSpan
    key.withBytes { bytes in
        var hash = BlakeHash(key: bytes, outputLength: count)
        hash.update(first)
        hash.update(second)
        hash.update(third)
        hash.update(fourth)
        hash.finish(into: &output)
    }
}

/// An incremental BLAKE2b in this thread's locked scratch memory. There is one at a time, and `finish` wipes it.
@safe private struct BlakeHash: ~Copyable {
    private let state: OpaquePointer
    private let memory: UnsafeMutableRawPointer
    private let outputLength: Int

    init(key: Span<UInt8>, outputLength: Int) {
        initializeSodium()
        unsafe memory = ThreadScratch.pointer()
        unsafe state = OpaquePointer(memory)
        self.outputLength = outputLength
        let state = unsafe state
        unsafe key.withUnsafeBytes { key in
            // The scratch memory is larger than the state (384 bytes) and has its alignment of 64.
            let result = unsafe crypto_generichash_init(state, key.isEmpty ? nil : key.bytes, key.count, outputLength)
            precondition(result == 0, "crypto_generichash_init failed")
        }
    }

    mutating func update(byte: UInt8) {
        var byte = byte
        unsafe _ = crypto_generichash_update(state, &byte, 1)
    }

    mutating func update(_ bytes: Span<UInt8>) {
        let state = unsafe state
        unsafe bytes.withUnsafeBytes { bytes in
            unsafe _ = crypto_generichash_update(
                state, bytes.bytes, UInt64(bytes.count))
        }
    }

    consuming func finish(into output: inout MutableSpan<UInt8>) {
        precondition(output.count == outputLength)
        let state = unsafe state
        let count = outputLength
        unsafe output.withUnsafeMutableBytes { output in
            // It is not empty, because its length is the hash's.
            unsafe _ = crypto_generichash_final(
                state, output.bytes, count)
        }
        unsafe sodium_memzero(memory, crypto_generichash_statebytes())
    }
}
