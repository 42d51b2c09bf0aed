// Reads a cut, changed or newer keybag: whose it was, and which device key it belongs to.

package import SodiumKit
package import VolumeFormat

/// A keybag that is not trusted, may be incomplete, and may be of any version, for destroying its keys.
package struct KeybagRemains: Sendable {
    /// The UUID in its bytes, which has the same place in every version.
    package let volumeID: VolumeID
    /// Whether all of it can be parsed.
    package let isWhole: Bool
    /// Whether a key that fits no slot here is certainly not a key of this keybag, because its device slot can be read, or it
    /// has none.
    package let namesItsDeviceKey: Bool
    /// Whether it is whole and says that the volume has no device key.
    package let hasNoDeviceKey: Bool
    private let bytes: [UInt8]

    /// Nil if not even the UUID can be read.
    package init?(_ bytes: [UInt8]) {
        let span = bytes.span
        guard span.count >= 32, span.hasText("PFSKBAG1") else { return nil }
        volumeID = VolumeID(span, at: 16)
        isWhole = (try? Keybag(parsing: bytes)) != nil
        self.bytes = bytes
        let hasDeviceSlot = Self.deviceSlots(in: span) { offset in
            (try? SlotLayout(parsing: bytes.span, at: offset, end: bytes.count))?.kind == .device
        }
        hasNoDeviceKey = isWhole && span[15] & KeybagLayout.noDeviceKey != 0
        namesItsDeviceKey = hasDeviceSlot || hasNoDeviceKey
    }

    /// Whether a slot was made with this device key, for this UUID. That is a proof, because making one needs the key.
    ///
    /// Only the commitment is compared. So a slot counts that a newer version has made, whose flags, TLVs or bundle cannot be
    /// read, and one that was cut off.
    package func belongs(to deviceKey: borrowing SecretKey) throws(KeybagError) -> Bool {
        try deviceKey.withBytes { device throws(KeybagError) in
            var failure: KeybagError?
            let found = Self.deviceSlots(in: bytes.span) { offset in
                do throws(KeybagError) {
                    return try isMade(at: offset, with: device)
                } catch {
                    failure = error
                    return true
                }
            }
            if let failure { throw failure }
            return found
        }
    }

    /// Whether this machine remembers a volume of this UUID with this public key. These bytes were then made from its keybag.
    package func isPinned(by state: StateFile) -> Bool {
        guard bytes.count >= 96, state.layout.isPinned, state.layout.volumeID == volumeID else { return false }
        return haveSameBytes(state.layout.publicKey, bytes.span.inline(at: 64) as InlineArray<32, UInt8>)
    }

    /// The limit of places that are tried, four times as many as the longest keybag of random bytes has. So a keybag that an
    /// attacker has made does not take long.
    private static let mostPlaces = 16384

    /// Calls `body` with each offset at which a device slot may begin, until it returns true. Every offset is tried, because a
    /// length before it may have been changed.
    private static func deviceSlots(in bytes: Span<UInt8>, _ body: (Int) -> Bool) -> Bool {
        var places = 0
        for offset in stride(from: KeybagLayout.headerLength, through: bytes.count - SlotLayout.fixedLength, by: 1)
        where bytes[offset + 2] == SlotLayout.Kind.device.rawValue {
            if body(offset) { return true }
            places += 1
            if places == mostPlaces { return false }
        }
        return false
    }

    private func isMade(at offset: Int, with device: Span<UInt8>) throws(KeybagError) -> Bool {
        let slot = bytes.span.extracting(offset..<offset + SlotLayout.fixedLength)
        let candidate = SlotLayout(
            kind: .device, isBoundToDevice: slot[3] & SlotLayout.bindDevice != 0, slotID: slot.littleEndian(at: 4),
            derivation: .none, salt: slot.inline(at: 32), commitment: slot.inline(at: 48), nonce: slot.inline(at: 80),
            bundle: [])
        return try secretMemory { () throws(SodiumError) in
            try SlotCipher.isMade(candidate, volumeID: volumeID, with: device, device: device)
        }
    }
}
