// A slot of the keybag: how one credential opens a bundle of keys.

/// A slot's bytes. None of them is secret, because the bundle is encrypted.
package struct SlotLayout: Sendable {
    /// The credential that opens a slot.
    package enum Kind: UInt8, Sendable, Hashable, CaseIterable {
        /// The device key: opens class D and M only.
        case device = 1
        case passphrase = 2
        /// The recovery code.
        case recovery = 3
        /// A TPM 2.0 of the machine.
        case tpm2 = 4
        /// A security key (FIDO2).
        case securityKey = 5
        /// A recipient's private key.
        case recipient = 6
    }

    /// The way from the credential to key material.
    package enum Derivation: UInt8, Sendable, Hashable {
        /// The credential is used unchanged.
        case none = 0
        /// Argon2id, version 1.3.
        case argon2id13 = 1
    }

    /// Bytes before the TLVs.
    package static let fixedLength = 104
    /// Bytes of the bundle's tag.
    package static let tagLength = 16
    /// Flag bit 0: the slot secret needs the device key too.
    package static let bindDevice: UInt8 = 1
    /// Flag bit 7: a program that does not know the slot must not use the keybag.
    package static let mustBeUnderstood: UInt8 = 0x80
    /// The accepted passes of Argon2id on reading.
    package static let acceptedPasses: ClosedRange<UInt32> = 1...16
    /// The accepted bytes of Argon2id's memory on reading. The machine may set a lower upper bound.
    package static let acceptedMemory: ClosedRange<UInt64> = 8 << 20...4 << 30
    /// The highest total cost of all slots that are tried before a MAC could be checked, in passes times bytes of memory: 40
    /// slots of three passes over 1 GiB, or two of the highest cost.
    package static let acceptedWork: UInt64 = 128 << 30

    /// The credential that opens it.
    package var kind: Kind
    /// Whether the slot secret needs the device key too.
    package var isBoundToDevice: Bool
    /// Whether a program that does not know the slot must not use the keybag.
    package var mustBeUnderstood = false
    /// Never reused.
    package var slotID: UInt32
    /// The way from the credential to key material.
    package var derivation: Derivation
    /// Argon2id's passes, or 0.
    package var passes: UInt32
    /// Argon2id's memory in bytes, or 0.
    package var memory: UInt64
    /// Random.
    package var salt: InlineArray<16, UInt8>
    /// KDF(S, slot-commit), which shows that the credential is right before the bundle is opened.
    package var commitment: InlineArray<32, UInt8>
    /// The bundle's nonce.
    package var nonce: InlineArray<24, UInt8>
    /// The label, the date of making, and TLVs of types that this program does not know.
    package var extensions: TypeLengthValues
    /// The encrypted bundle: entries × 40 + 16 bytes.
    package var bundle: [UInt8]

    /// Makes a slot from its parts.
    package init(
        kind: Kind, isBoundToDevice: Bool, slotID: UInt32, derivation: Derivation, passes: UInt32 = 0,
        memory: UInt64 = 0, salt: InlineArray<16, UInt8>, commitment: InlineArray<32, UInt8>,
        nonce: InlineArray<24, UInt8>,
        bundle: [UInt8]
    ) {
        self.kind = kind
        self.isBoundToDevice = isBoundToDevice
        self.slotID = slotID
        self.derivation = derivation
        self.passes = passes
        self.memory = memory
        self.salt = salt
        self.commitment = commitment
        self.nonce = nonce
        extensions = TypeLengthValues()
        self.bundle = bundle
    }

    /// Bytes of the slot.
    package var length: Int { Self.fixedLength + extensions.length + bundle.count }

    /// Whether it opens every key on other machines: without the device key, and without a TPM.
    package var isPortable: Bool { kind != .device && kind != .tpm2 && !isBoundToDevice }

    /// Entries of the bundle.
    package var entryCount: Int { (bundle.count - Self.tagLength) / BundleEntry.length }

    /// Parses the slot at `offset`, which ends at or before `end`.
    ///
    /// - Throws: `.unsupported` if a newer version made the slot.
    package init(parsing bytes: Span<UInt8>, at offset: Int, end: Int) throws(FormatError) {
        let slot = bytes.extracting(try Self.range(in: bytes, at: offset, end: end))
        let length = slot.count
        // These come first, because the rest of a newer slot may have any form.
        guard let kind = Kind(rawValue: slot[2]) else { throw .unsupported("slot kind") }
        guard slot[3] & ~(Self.bindDevice | Self.mustBeUnderstood) == 0 else { throw .unsupported("slot flags") }
        guard length > 8 else { throw .inconsistent("slot length") }
        guard let derivation = Derivation(rawValue: slot[8]) else { throw .unsupported("slot KDF") }
        guard length >= Self.fixedLength + Self.tagLength else { throw .inconsistent("slot length") }
        guard slot.extracting(24..<32).isAllZero else { throw .unsupported("reserved slot bytes") }
        let passes: UInt32 = slot.littleEndian(at: 12)
        let memory: UInt64 = slot.littleEndian(at: 16)
        switch derivation {
        case .none: guard passes == 0, memory == 0 else { throw .unsupported("slot KDF parameters") }
        case .argon2id13:
            guard Self.acceptedPasses.contains(passes), Self.acceptedMemory.contains(memory) else {
                throw .unsupported("slot KDF parameters")
            }
        }
        let bundleStart = Self.fixedLength + Int(slot.littleEndian(at: 10, as: UInt16.self))
        guard length == bundleStart + Int(slot[9]) * BundleEntry.length + Self.tagLength else {
            throw .inconsistent("slot length")
        }
        self.init(
            kind: kind, isBoundToDevice: slot[3] & Self.bindDevice != 0, slotID: slot.littleEndian(at: 4),
            derivation: derivation, passes: passes, memory: memory, salt: slot.inline(at: 32),
            commitment: slot.inline(at: 48), nonce: slot.inline(at: 80),
            bundle: slot.extracting(bundleStart..<length).copiedBytes())
        mustBeUnderstood = slot[3] & Self.mustBeUnderstood != 0
        extensions = try TypeLengthValues(
            parsing: slot.extracting(Self.fixedLength..<bundleStart), known: Self.knownTypes)
        // Another form of recipient is a newer version's.
        guard kind != .recipient || (derivation == .none && recipient != nil) else {
            throw .unsupported("slot recipient")
        }
        guard kind != .tpm2 || (derivation == .none && tpm2 != nil) else { throw .unsupported("slot TPM2") }
        guard kind != .securityKey || (derivation == .none && !isBoundToDevice && securityKey != nil) else {
            throw .unsupported("slot security key")
        }
    }

    /// The range of the slot at `offset`, of any version: it begins with its length.
    static func range(in bytes: Span<UInt8>, at offset: Int, end: Int) throws(FormatError) -> Range<Int> {
        guard offset >= 0, end <= bytes.count, end - offset >= 8 else { throw .inconsistent("slot length") }
        let length = Int(bytes.littleEndian(at: offset, as: UInt16.self))
        guard length >= 8, length <= end - offset else { throw .inconsistent("slot length") }
        return offset..<offset + length
    }

    /// Writes the slot's bytes at `offset`. Traps if they do not fit.
    package func store(into bytes: inout MutableSpan<UInt8>, at offset: Int) {
        storePrefix(into: &bytes, at: offset)
        bytes.copy(bundle.span, to: offset + Self.fixedLength + extensions.length)
    }

    /// The bundle's associated data: `AssociatedData.slotPrefix`, then every byte of the slot before the bundle.
    ///
    /// The bundle's length is included, its bytes are not: `bundle` may still be zeros of the final length.
    package func associatedData(volume: VolumeID) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: 32 + Self.fixedLength + extensions.length)
        var bytes = result.mutableSpan
        let prefix = AssociatedData.slotPrefix(volume: volume)
        bytes.copy(prefix.span, to: 0)
        storePrefix(into: &bytes, at: 32)
        return result
    }

    private func storePrefix(into bytes: inout MutableSpan<UInt8>, at offset: Int) {
        bytes.storeLittleEndian(UInt16(truncatingIfNeeded: length), at: offset)
        bytes.storeLittleEndian(kind.rawValue, at: offset + 2)
        let flags = (isBoundToDevice ? Self.bindDevice : 0) | (mustBeUnderstood ? Self.mustBeUnderstood : 0)
        bytes.storeLittleEndian(flags, at: offset + 3)
        bytes.storeLittleEndian(slotID, at: offset + 4)
        bytes.storeLittleEndian(derivation.rawValue, at: offset + 8)
        bytes.storeLittleEndian(UInt8(truncatingIfNeeded: entryCount), at: offset + 9)
        bytes.storeLittleEndian(UInt16(truncatingIfNeeded: extensions.length), at: offset + 10)
        bytes.storeLittleEndian(passes, at: offset + 12)
        bytes.storeLittleEndian(memory, at: offset + 16)
        bytes.zero(offset + 24..<offset + 32)
        bytes.copy(salt.span, to: offset + 32)
        bytes.copy(commitment.span, to: offset + 48)
        bytes.copy(nonce.span, to: offset + 80)
        extensions.store(into: &bytes, at: offset + Self.fixedLength)
    }
}
