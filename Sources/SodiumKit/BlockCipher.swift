// The cipher of one extent: a key in locked memory that seals and opens blocks without allocating.

internal import CSodium
package import VolumeFormat

/// The layout of a block in a buffer, as offsets from the buffer's beginning.
package struct BlockPlace: Equatable, Sendable {
    /// The offset of the nonce.
    package var nonce: Int
    /// The range of the ciphertext, and of the plaintext that replaces it.
    package var text: Range<Int>
    /// The offset of the tag's 16 bytes.
    package var tag: Int

    /// Makes a layout of these parts.
    package init(nonce: Int, text: Range<Int>, tag: Int) {
        self.nonce = nonce
        self.text = text
        self.tag = tag
    }
}

/// The key of one extent. Sealing and opening are thread-safe and allocate nothing. They leave no plaintext in the vector
/// registers, from where it would get to the stack. IPsec-MB clears these itself.
@safe package final class BlockCipher: @unchecked Sendable {
    /// The suite that it was made for.
    package let suite: CipherSuite
    /// The code that runs it.
    package let backend: CipherBackend
    /// IPsec-MB's expanded key, or for the others the key itself. Aligned to 64.
    private let slot: Slot

    /// Expands `key`.
    ///
    /// - Parameter backend: nil takes the best. A backend that cannot run the suite here is a programming error: `SelfTest`
    ///   has refused a machine that has none.
    package init(suite: CipherSuite, key: borrowing SecretKey, backend: CipherBackend? = nil) throws(SodiumError) {
        initializeSodium()
        let backend = backend ?? CipherBackend.best(for: suite)
        guard backend.isAvailable(for: suite) else { fatalError("\(backend) cannot run \(suite) on this machine") }
        self.suite = suite
        self.backend = backend
        if backend == .openSSL { try OpenSSL.prepareThread() }
        slot = try Slots.ciphers.take()
        switch backend {
        case .ipsecMB:
            #if arch(x86_64)
                if let library = IPsecMB.shared { unsafe library.expand(key, into: slot.pointer) }
            #endif
        case .openSSL, .sodium:
            unsafe slot.pointer.copyMemory(from: key.pointer, byteCount: SecretKey.byteCount)
        }
    }

    deinit {
        Slots.ciphers.release(slot)
    }

    /// Wipes the key at once. No thread may be using it, and from now on it opens nothing.
    package func wipe() {
        unsafe sodium_memzero(slot.pointer, Slots.ciphers.slotSize)
    }

    /// Encrypts a block in place, with the nonce that is already in the buffer, and writes its tag.
    package func seal(
        _ buffer: inout MutableSpan<UInt8>, _ place: BlockPlace, associatedData: Span<UInt8>
    ) {
        check(place, in: buffer.count)
        unsafe buffer.withUnsafeMutableBytes { buffer in
            unsafe associatedData.withUnsafeBytes { data in
                let start = unsafe buffer.bytes
                // `check` has verified that every part is inside the buffer.
                unsafe seal(
                    start + place.text.lowerBound, start + place.text.lowerBound, count: place.text.count,
                    nonce: start + place.nonce, associatedData: data, tag: start + place.tag)
            }
        }
    }

    /// Decrypts a block in place.
    ///
    /// - Returns: false if the tag is wrong. The text is then zeros.
    package func open(
        _ buffer: inout MutableSpan<UInt8>, _ place: BlockPlace, associatedData: Span<UInt8>
    ) -> Bool {
        check(place, in: buffer.count)
        return unsafe buffer.withUnsafeMutableBytes { buffer in
            unsafe associatedData.withUnsafeBytes { data in
                let start = unsafe buffer.bytes
                // `check` has verified that every part is inside the buffer.
                return unsafe open(
                    start + place.text.lowerBound, start + place.text.lowerBound, count: place.text.count,
                    nonce: start + place.nonce, associatedData: data, tag: start + place.tag)
            }
        }
    }

    /// Encrypts `plaintext`, which is as long as the block's text, into a block with the nonce that is already there.
    package func seal(
        _ plaintext: Span<UInt8>, into buffer: inout MutableSpan<UInt8>, _ place: BlockPlace,
        associatedData: Span<UInt8>
    ) {
        check(place, in: buffer.count)
        precondition(plaintext.count == place.text.count)
        unsafe buffer.withUnsafeMutableBytes { buffer in
            unsafe plaintext.withUnsafeBytes { plaintext in
                unsafe associatedData.withUnsafeBytes { data in
                    let start = unsafe buffer.bytes
                    // `check` has verified that every part is inside the buffer. The plaintext has the text's length.
                    unsafe seal(
                        start + place.text.lowerBound, plaintext.bytes, count: place.text.count,
                        nonce: start + place.nonce, associatedData: data, tag: start + place.tag)
                }
            }
        }
    }

    /// Decrypts a block of `buffer` into `output` from `offset` on.
    ///
    /// - Returns: false if the tag is wrong. The output is then zeros.
    package func open(
        _ buffer: Span<UInt8>, _ place: BlockPlace, into output: inout MutableSpan<UInt8>, at offset: Int,
        associatedData: Span<UInt8>
    ) -> Bool {
        check(place, in: buffer.count)
        precondition(offset >= 0 && offset <= output.count && place.text.count <= output.count - offset)
        return unsafe output.withUnsafeMutableBytes { output in
            unsafe buffer.withUnsafeBytes { buffer in
                unsafe associatedData.withUnsafeBytes { data in
                    let start = unsafe buffer.bytes
                    // `check` has verified that every part is inside the buffer. The output has room from `offset` on.
                    return unsafe open(
                        output.bytes + offset, start + place.text.lowerBound, count: place.text.count,
                        nonce: start + place.nonce, associatedData: data, tag: start + place.tag)
                }
            }
        }
    }

    /// Encrypts into other memory: ciphertext, then tag. `sealed` has `plaintext.count + 16` bytes.
    package func seal(
        _ plaintext: Span<UInt8>, nonce: Span<UInt8>, associatedData: Span<UInt8>, into sealed: inout MutableSpan<UInt8>
    ) {
        let count = plaintext.count
        precondition(nonce.count == suite.nonceLength && sealed.count == count + CipherSuite.tagLength && count > 0)
        unsafe sealed.withUnsafeMutableBytes { sealed in
            unsafe plaintext.withUnsafeBytes { plaintext in
                unsafe nonce.withUnsafeBytes { nonce in
                    unsafe associatedData.withUnsafeBytes { data in
                        // The lengths were checked above.
                        unsafe seal(
                            sealed.bytes, plaintext.bytes, count: count, nonce: nonce.bytes, associatedData: data,
                            tag: sealed.bytes + count)
                    }
                }
            }
        }
    }

    /// Decrypts ciphertext ‖ tag into other memory, which is 16 bytes shorter.
    ///
    /// - Returns: false if the tag is wrong. The output is then zeros.
    package func open(
        _ sealed: Span<UInt8>, nonce: Span<UInt8>, associatedData: Span<UInt8>, into plaintext: inout MutableSpan<UInt8>
    ) -> Bool {
        let count = plaintext.count
        precondition(nonce.count == suite.nonceLength && sealed.count == count + CipherSuite.tagLength && count > 0)
        return unsafe plaintext.withUnsafeMutableBytes { plaintext in
            unsafe sealed.withUnsafeBytes { sealed in
                unsafe nonce.withUnsafeBytes { nonce in
                    unsafe associatedData.withUnsafeBytes { data in
                        // The lengths were checked above.
                        unsafe open(
                            plaintext.bytes, sealed.bytes, count: count, nonce: nonce.bytes, associatedData: data,
                            tag: sealed.bytes + count)
                    }
                }
            }
        }
    }

    private func check(_ place: BlockPlace, in count: Int) {
        precondition(place.nonce >= 0 && place.nonce <= count - suite.nonceLength)
        precondition(place.text.lowerBound >= 0 && place.text.upperBound <= count && !place.text.isEmpty)
        precondition(place.tag >= 0 && place.tag <= count - CipherSuite.tagLength)
    }

    /// The key in the slot, for the libraries that expand it themselves.
    private var key: UnsafePointer<UInt8> {
        unsafe UnsafePointer(slot.pointer.assumingMemoryBound(to: UInt8.self))
    }

    private func seal(
        _ output: UnsafeMutablePointer<UInt8>, _ input: UnsafePointer<UInt8>, count: Int,
        nonce: UnsafePointer<UInt8>, associatedData: UnsafeRawBufferPointer, tag: UnsafeMutablePointer<UInt8>
    ) {
        switch backend {
        case .ipsecMB:
            #if arch(x86_64)
                guard let library = IPsecMB.shared else { return }
                unsafe library.seal(
                    key: slot.pointer, output, input, count: count, nonce: nonce, associatedData: associatedData,
                    tag: tag)
            #endif
        case .openSSL:
            unsafe OpenSSL.seal(
                key: key, output, input, count: count, nonce: nonce, associatedData: associatedData, tag: tag)
            wipeVectorRegisters()
        case .sodium:
            unsafe _ = crypto_aead_xchacha20poly1305_ietf_encrypt_detached(
                output, tag, nil, input, UInt64(count), associatedData.bytes, UInt64(associatedData.count), nil, nonce,
                key)
            wipeVectorRegisters()
        }
    }

    private func open(
        _ output: UnsafeMutablePointer<UInt8>, _ input: UnsafePointer<UInt8>, count: Int,
        nonce: UnsafePointer<UInt8>, associatedData: UnsafeRawBufferPointer, tag: UnsafePointer<UInt8>
    ) -> Bool {
        let isRight: Bool
        switch backend {
        case .ipsecMB:
            #if arch(x86_64)
                guard let library = IPsecMB.shared else { return false }
                return unsafe library.open(
                    key: slot.pointer, output, input, count: count, nonce: nonce, associatedData: associatedData,
                    tag: tag)
            #else
                return false
            #endif
        case .openSSL:
            isRight = unsafe OpenSSL.open(
                key: key, output, input, count: count, nonce: nonce, associatedData: associatedData, tag: tag)
        case .sodium:
            isRight =
                unsafe crypto_aead_xchacha20poly1305_ietf_decrypt_detached(
                    output, nil, input, UInt64(count), tag, associatedData.bytes, UInt64(associatedData.count), nonce,
                    key) == 0
        }
        wipeVectorRegisters()
        if !isRight { unsafe sodium_memzero(output, count) }
        return isRight
    }
}
