// Adds slots to a layout. Signing the layout makes the keybag.

import SodiumKit
import VolumeFormat

/// A layout that is being changed.
///
/// Every new slot raises the serial and takes it as its ID. So IDs grow with the serial and are never used again.
struct KeybagEditor {
    var layout: KeybagLayout

    init(_ layout: KeybagLayout) {
        self.layout = layout
    }

    private var generations: [UInt16] { (0..<8).map { layout.generations[$0] } }

    /// Raises the serial and gives an ID for a new slot.
    private mutating func newSlotID() throws(KeybagError) -> UInt32 {
        try raiseSerial()
        let highest = layout.slots.map(\.slotID).max() ?? 0
        let (next, overflow) = highest.addingReportingOverflow(1)
        guard !overflow, let id = UInt32(exactly: max(layout.serial, UInt64(next))) else { throw .full }
        layout.serial = max(layout.serial, UInt64(id))
        return id
    }

    mutating func raiseSerial() throws(KeybagError) {
        let (serial, overflow) = layout.serial.addingReportingOverflow(1)
        guard !overflow else { throw .full }
        layout.serial = serial
    }

    mutating func addDevice(_ device: Span<UInt8>, keys: borrowing VolumeKeys) throws(KeybagError) {
        var slot = Self.emptySlot(.device, id: try newSlotID())
        try secretMemory { () throws(SodiumError) in
            let bundle = try keys.deviceBundle(generations: generations)
            try SlotCipher.seal(
                &slot, bundle: bundle, volumeID: layout.volumeID, material: device, device: Span<UInt8>())
        }
        try append(slot, at: layout.slots.count)
    }

    /// Adds a passphrase. If `index` is given, it replaces that slot under the same ID.
    mutating func addPassphrase(
        _ passphrase: borrowing SecretBytes, bound: Bool, device: Span<UInt8>, cost: Argon2Parameters,
        keys: borrowing VolumeKeys, replacing index: Int? = nil
    ) throws(KeybagError) {
        guard passphrase.byteCount > 0, passphrase.byteCount <= Credential.maximumLength else {
            throw .unusablePassphrase
        }
        guard !bound || !device.isEmpty else { throw .deviceKeyNeeded }
        // A slot that would be refused on reading must not be written.
        guard SlotLayout.acceptedPasses.contains(cost.passes), SlotLayout.acceptedMemory.contains(cost.memory) else {
            throw .passwordHashRefused(passes: cost.passes, memory: cost.memory)
        }
        var id: UInt32
        if let index {
            try raiseSerial()
            id = layout.slots[index].slotID
        } else {
            id = try newSlotID()
        }
        var slot = Self.emptySlot(.passphrase, id: id)
        slot.isBoundToDevice = bound
        slot.derivation = .argon2id13
        slot.passes = cost.passes
        slot.memory = cost.memory
        let material = try passphrase.withBytes { bytes throws(KeybagError) in
            try Keybag.hash(bytes, salt: slot.salt, cost: cost)
        }
        let generations = generations
        let volumeID = layout.volumeID
        try secretMemory { () throws(SodiumError) in
            let bundle = try keys.bundle(generations: generations)
            try material.withBytes { bytes throws(SodiumError) in
                try SlotCipher.seal(&slot, bundle: bundle, volumeID: volumeID, material: bytes, device: device)
            }
        }
        if let index {
            layout.slots[index] = slot
        } else {
            try append(slot, at: layout.slots.count)
        }
    }

    /// Adds a recovery code and gives its text.
    mutating func addRecovery(keys: borrowing VolumeKeys) throws(KeybagError) -> SecretBytes {
        var slot = Self.emptySlot(.recovery, id: try newSlotID())
        let generations = generations
        let volumeID = layout.volumeID
        let text = try secretMemory { () throws(SodiumError) in
            let secret = try RecoverySecret.random()
            let bundle = try keys.bundle(generations: generations)
            try secret.withBytes { bytes throws(SodiumError) in
                try SlotCipher.seal(
                    &slot, bundle: bundle, volumeID: volumeID, material: bytes, device: Span<UInt8>())
            }
            return try RecoverySecret.text(of: secret)
        }
        try append(slot, at: layout.slots.count)
        return text
    }

    private mutating func append(_ slot: SlotLayout, at index: Int) throws(KeybagError) {
        guard layout.length + slot.length <= KeybagLayout.maximumLength else { throw .full }
        layout.slots.insert(slot, at: index)
    }

    private static func emptySlot(_ kind: SlotLayout.Kind, id: UInt32) -> SlotLayout {
        SlotLayout(
            kind: kind, isBoundToDevice: false, slotID: id, derivation: .none, salt: randomInlineBytes(),
            commitment: InlineArray(repeating: 0), nonce: InlineArray(repeating: 0), bundle: [])
    }
}
