// Reads a cut or changed keybag: whose it was, and whether it had a device key.

package import SodiumKit
package import VolumeFormat

/// A keybag that is not trusted and may be incomplete, for destroying its keys.
package struct KeybagRemains: Sendable {
    /// The UUID in its bytes.
    package let volumeID: VolumeID
    /// Whether all of it can be parsed.
    package let isWhole: Bool
    /// Whether its flag says that the volume has no device key.
    package let hasNoDeviceKey: Bool
    private let publicKey: InlineArray<32, UInt8>?
    private let deviceSlots: [SlotLayout]

    /// Nil if not even the UUID can be read.
    package init?(_ bytes: [UInt8]) {
        let span = bytes.span
        guard span.count >= 32, span.hasText("PFSKBAG1") else { return nil }
        volumeID = VolumeID(span, at: 16)
        publicKey = span.count >= 96 ? span.inline(at: 64) : nil
        isWhole = (try? Keybag(parsing: bytes)) != nil
        hasNoDeviceKey = span[15] & KeybagLayout.noDeviceKey != 0
        var slots: [SlotLayout] = []
        // Tries every offset, because an earlier length may have been changed.
        for offset in stride(
            from: KeybagLayout.headerLength, to: min(span.count, KeybagLayout.maximumLength), by: 1)
        {
            guard span.count - offset > 3, span[offset + 2] == SlotLayout.Kind.device.rawValue,
                let slot = try? SlotLayout(parsing: span, at: offset, end: span.count), slot.kind == .device
            else { continue }
            slots.append(slot)
        }
        deviceSlots = slots
    }

    /// Whether a slot of a device key can be read.
    package var hasDeviceSlot: Bool { !deviceSlots.isEmpty }

    /// Whether a slot was made with this device key, for this UUID. That is a proof, because making one needs the key.
    package func belongs(to deviceKey: borrowing SecretKey) throws(KeybagError) -> Bool {
        try deviceKey.withBytes { device throws(KeybagError) in
            for slot in deviceSlots {
                let opening = try secretMemory { () throws(SodiumError) in
                    try SlotCipher.open(slot, volumeID: volumeID, material: device, device: device)
                }
                switch consume opening {
                case .bundle: return true
                // The commitment shows that the key is right.
                case .damaged: return true
                case .wrongMaterial: continue
                }
            }
            return false
        }
    }

    /// Whether this machine remembers a volume of this UUID with this public key. These bytes were then made from its keybag.
    package func isPinned(by state: StateFile) -> Bool {
        guard let publicKey else { return false }
        return state.layout.volumeID == volumeID && haveSameBytes(state.layout.publicKey, publicKey)
    }
}
