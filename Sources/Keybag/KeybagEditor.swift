// Adds slots to a layout. Signing the layout makes the keybag.

import HostSystem
import SodiumKit
import VolumeFormat

/// A layout that is being changed.
///
/// Every new slot raises the serial and takes it as its ID. So IDs grow with the serial and are never used again. A new slot
/// holds every entry of the bundle that was opened, those of unknown types too.
struct KeybagEditor {
    var layout: KeybagLayout

    init(_ layout: KeybagLayout) {
        self.layout = layout
    }

    /// Raises the serial and gives an ID for a new slot.
    private mutating func newSlotID() throws(KeybagError) -> UInt32 {
        try raiseSerial()
        let highest = layout.slots.map(\.slotID).max() ?? 0
        let (next, overflow) = highest.addingReportingOverflow(1)
        guard !overflow, let id = UInt32(exactly: max(layout.serial, UInt64(next))) else {
            throw .numbersUsedUp
        }
        layout.serial = max(layout.serial, UInt64(id))
        return id
    }

    mutating func raiseSerial() throws(KeybagError) {
        let (serial, overflow) = layout.serial.addingReportingOverflow(1)
        guard !overflow else { throw .numbersUsedUp }
        layout.serial = serial
    }

    mutating func addDevice(
        _ device: Span<UInt8>, label: String?, keys: borrowing VolumeKeys
    ) throws(KeybagError) {
        var slot = try Self.emptySlot(.device, id: try newSlotID(), label: label)
        let id = slot.slotID
        guard let bundle = try secretMemory({ () throws(SodiumError) in try keys.deviceBundle() }) else {
            throw .malformedBundle(slot: id)
        }
        try seal(&slot, bundle, material: device, device: Span<UInt8>())
        try append(slot)
    }

    /// Adds a passphrase. If `index` is given, it replaces that slot under the same ID; what the slot says beside the
    /// passphrase is kept, its name too if `label` is nil.
    mutating func addPassphrase(
        _ passphrase: borrowing SecretBytes, bound: Bool, device: Span<UInt8>, cost: Argon2Parameters, label: String?,
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
        let old = index.flatMap { layout.slots[$0].known }
        var id: UInt32
        if let old {
            try raiseSerial()
            id = old.slotID
        } else {
            id = try newSlotID()
        }
        var slot = try Self.emptySlot(.passphrase, id: id, label: label ?? old?.label.name, keeping: old)
        slot.isBoundToDevice = bound
        slot.derivation = .argon2id13
        slot.passes = cost.passes
        slot.memory = cost.memory
        let salt = slot.salt
        let material = try passphrase.withBytes { bytes throws(KeybagError) in
            try Keybag.hash(bytes, salt: salt, cost: cost)
        }
        try material.withBytes { bytes throws(KeybagError) in
            try seal(&slot, keys.bundle, material: bytes, device: device)
        }
        if let index {
            layout.slots[index] = .known(slot)
        } else {
            try append(slot)
        }
    }

    /// Adds a new recovery code and gives its text.
    mutating func addRecovery(label: String?, keys: borrowing VolumeKeys) throws(KeybagError) -> SecretBytes {
        let secret = try secretMemory { () throws(SodiumError) in try RecoverySecret.random() }
        return try addRecovery(secret, label: label, keys: keys)
    }

    /// Adds a slot for a recovery code that was shown before, and gives its text.
    mutating func addRecovery(
        text: borrowing SecretBytes, label: String?, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> SecretBytes {
        let secret = try text.withBytes { bytes throws(KeybagError) in try RecoverySecret.parse(bytes) }
        return try addRecovery(secret, label: label, keys: keys)
    }

    private mutating func addRecovery(
        _ secret: borrowing SecretBytes, label: String?, keys: borrowing VolumeKeys
    ) throws(KeybagError) -> SecretBytes {
        var slot = try Self.emptySlot(.recovery, id: try newSlotID(), label: label)
        try secret.withBytes { bytes throws(KeybagError) in
            try seal(&slot, keys.bundle, material: bytes, device: Span<UInt8>())
        }
        try append(slot)
        return try secretMemory { () throws(SodiumError) in try RecoverySecret.text(of: secret) }
    }

    /// Adds a recipient. Nothing secret of theirs is needed.
    mutating func addRecipient(
        _ publicKey: InlineArray<32, UInt8>, label: String?, keys: borrowing VolumeKeys
    ) throws(KeybagError) {
        var slot = try Self.emptySlot(.recipient, id: try newSlotID(), label: label)
        let material = try secretMemory { () throws(SodiumError) in try SecretKey.random() }
        slot.recipient = try .sealing(material, to: publicKey, slot: slot, volumeID: layout.volumeID)
        try material.withBytes { bytes throws(KeybagError) in
            try seal(&slot, keys.bundle, material: bytes, device: Span<UInt8>())
        }
        try append(slot)
    }

    /// Adds a TPM.
    ///
    /// - Parameter device: the device key, to bind the slot to it. Empty binds it to none.
    mutating func addTPM2(
        _ tpm2: SlotTPM2, material: borrowing SecretBytes, device: Span<UInt8>, label: String?,
        keys: borrowing VolumeKeys
    ) throws(KeybagError) {
        guard material.byteCount == SlotTPM2.secretLength else { throw .wrongTPM2 }
        var slot = try Self.emptySlot(.tpm2, id: try newSlotID(), label: label)
        slot.isBoundToDevice = !device.isEmpty
        slot.tpm2 = tpm2
        try material.withBytes { bytes throws(KeybagError) in
            try seal(&slot, keys.bundle, material: bytes, device: device)
        }
        try append(slot)
    }

    /// Adds a security key, which gave `secret`.
    mutating func addSecurityKey(
        _ key: SlotSecurityKey, secret: borrowing SecretBytes, label: String?, keys: borrowing VolumeKeys
    ) throws(KeybagError) {
        guard secret.byteCount == SlotSecurityKey.saltLength else { throw .wrongSecurityKey }
        var slot = try Self.emptySlot(.securityKey, id: try newSlotID(), label: label)
        slot.securityKey = key
        try secret.withBytes { bytes throws(KeybagError) in
            try seal(&slot, keys.bundle, material: bytes, device: Span<UInt8>())
        }
        try append(slot)
    }

    private func seal(
        _ slot: inout SlotLayout, _ bundle: borrowing KeyBundle, material: Span<UInt8>, device: Span<UInt8>
    ) throws(KeybagError) {
        do throws(SodiumError) {
            try SlotCipher.seal(&slot, bundle: bundle, volumeID: layout.volumeID, material: material, device: device)
        } catch {
            throw .memory(error)
        }
    }

    private mutating func append(_ slot: SlotLayout) throws(KeybagError) {
        guard layout.length + slot.length <= KeybagLayout.maximumLength, layout.slots.count < Int(UInt16.max) else {
            throw .full
        }
        layout.slots.append(.known(slot))
    }

    /// A slot without a bundle, made now.
    ///
    /// - Parameters:
    ///   - label: its name. Nil and an empty text make a slot without one.
    ///   - old: the slot that it replaces. TLVs and flags that this program does not use are kept.
    private static func emptySlot(
        _ kind: SlotLayout.Kind, id: UInt32, label: String?, keeping old: SlotLayout? = nil
    ) throws(KeybagError) -> SlotLayout {
        var slot = SlotLayout(
            kind: kind, isBoundToDevice: false, slotID: id, derivation: .none, salt: randomInlineBytes(),
            commitment: InlineArray(repeating: 0), nonce: InlineArray(repeating: 0), bundle: [])
        if let old {
            slot.extensions = old.extensions
            slot.mustBeUnderstood = old.mustBeUnderstood
        }
        let name = label.flatMap { $0.isEmpty ? nil : $0 }
        if let name, SlotLabel.text(Array(name.utf8)) == nil { throw .unusableLabel }
        slot.label = SlotLabel(name: name, seconds: UInt64(max(WallClock.seconds, 0)))
        return slot
    }
}
