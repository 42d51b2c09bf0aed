// Intel's IPsec-MB: AES-256-GCM at the speed of the processor's vector units.

#if arch(x86_64)
    internal import CIPSecMB
    internal import CSodium

    /// The direct AES-256-GCM calls of one manager that all threads share.
    ///
    /// They are plain functions of the caller's key data and context. The manager is only the table that `init_mb_mgr_auto` has
    /// filled with those for this processor. It is read-only afterwards.
    @safe struct IPsecMB: @unchecked Sendable {
        /// Whether the library has code for this processor.
        static var isAvailable: Bool { shared != nil }

        /// Nil if the processor has no AES or carry-less multiplication.
        static let shared: IPsecMB? = IPsecMB()

        /// Never freed, because it is used until the process ends.
        private let manager: UnsafeMutablePointer<IMB_MGR>
        private let expandKey: aes_gcm_pre_t
        private let encrypt: aes_gcm_enc_dec_t
        private let decrypt: aes_gcm_enc_dec_t

        private init?() {
            guard let manager = unsafe alloc_mb_mgr(0) else { return nil }
            var architecture = IMB_ARCH_NONE
            unsafe init_mb_mgr_auto(manager, &architecture)
            let needed = UInt64(IMB_FEATURE_AESNI) | UInt64(IMB_FEATURE_PCLMULQDQ)
            guard
                unsafe imb_get_errno(manager) == 0, unsafe manager.pointee.features & needed == needed,
                architecture != IMB_ARCH_NONE, pfs_imb_is_emulated(architecture) == 0,
                let expandKey = unsafe manager.pointee.gcm256_pre,
                let encrypt = unsafe manager.pointee.gcm256_enc,
                let decrypt = unsafe manager.pointee.gcm256_dec
            else {
                unsafe free_mb_mgr(manager)
                return nil
            }
            unsafe self.manager = unsafe manager
            unsafe self.expandKey = unsafe expandKey
            unsafe self.encrypt = unsafe encrypt
            unsafe self.decrypt = unsafe decrypt
        }

        /// Expands a 32-byte key into `slot`, which has room for `gcm_key_data` (expanded key and GHASH tables) and is
        /// aligned to 64. Swift's importer loses that alignment.
        func expand(_ key: borrowing SecretKey, into slot: UnsafeMutableRawPointer) {
            unsafe expandKey(key.pointer, slot.assumingMemoryBound(to: gcm_key_data.self))
        }

        /// Encrypts `count` bytes and writes the 16-byte tag.
        func seal(
            key: UnsafeMutableRawPointer, _ output: UnsafeMutablePointer<UInt8>, _ input: UnsafePointer<UInt8>,
            count: Int, nonce: UnsafePointer<UInt8>, associatedData: UnsafeRawBufferPointer,
            tag: UnsafeMutablePointer<UInt8>
        ) {
            let context = unsafe ThreadScratch.pointer()
            unsafe encrypt(
                key.assumingMemoryBound(to: gcm_key_data.self), context.assumingMemoryBound(to: gcm_context_data.self),
                output, input, UInt64(count), nonce, associatedData.bytes, UInt64(associatedData.count), tag, 16)
            unsafe sodium_memzero(context, MemoryLayout<gcm_context_data>.size)
        }

        /// Decrypts `count` bytes. If the tag differs from `tag`, the plaintext is wiped and the result is false, because the
        /// library itself returns plaintext before the tags are compared.
        func open(
            key: UnsafeMutableRawPointer, _ output: UnsafeMutablePointer<UInt8>, _ input: UnsafePointer<UInt8>,
            count: Int, nonce: UnsafePointer<UInt8>, associatedData: UnsafeRawBufferPointer,
            tag: UnsafePointer<UInt8>
        ) -> Bool {
            let context = unsafe ThreadScratch.pointer()
            // After the context in the scratch memory.
            let computed = unsafe (context + 512).assumingMemoryBound(to: UInt8.self)
            unsafe decrypt(
                key.assumingMemoryBound(to: gcm_key_data.self), context.assumingMemoryBound(to: gcm_context_data.self),
                output, input, UInt64(count), nonce, associatedData.bytes, UInt64(associatedData.count), computed, 16)
            let isRight = unsafe sodium_memcmp(computed, tag, 16) == 0
            unsafe sodium_memzero(context, MemoryLayout<gcm_context_data>.size)
            unsafe sodium_memzero(computed, 16)
            if !isRight { unsafe sodium_memzero(output, count) }
            return isRight
        }
    }
#else
    /// IPsec-MB is for x86-64.
    enum IPsecMB {
        static var isAvailable: Bool { false }
    }
#endif
