// A volume's keybag as a value. It is parsed strictly, authenticated when it is opened, and changed only into a new one.

package import SodiumKit
package import VolumeFormat

/// The keybag of a volume.
///
/// Parsing trusts nothing. `open` checks the first MAC, `unlock` both. Every change gives a new value with a higher serial and
/// fresh MACs, for the caller to write atomically and to pin in the state file.
package struct Keybag: Sendable {
    /// The bytes as last parsed or made.
    package let bytes: [UInt8]
    let layout: KeybagLayout

    /// Parses `bytes` strictly.
    package init(parsing bytes: [UInt8]) throws(KeybagError) {
        do throws(FormatError) {
            layout = try KeybagLayout(parsing: bytes.span)
        } catch {
            throw error.isNewer ? .newer(error, writer: KeybagLayout.writer(of: bytes.span)) : .format(error)
        }
        self.bytes = bytes
    }

    /// The UUID that the bytes of a keybag of any version claim. Nil if they are too short.
    package static func claimedVolume(of bytes: [UInt8]) -> VolumeID? {
        bytes.count < 96 ? nil : VolumeID(bytes.span, at: 16)
    }

    /// Signs `layout` with both keys, as this program's.
    init(
        signing layout: consuming KeybagLayout, metadata: borrowing SecretKey, unlock: borrowing SecretKey
    ) throws(KeybagError) {
        layout.extensions[KeybagLayout.writerType] = Array(ProgramVersion.writer.utf8)
        guard layout.length <= KeybagLayout.maximumLength else { throw .full }
        var bytes = layout.serialized()
        let uuid = layout.volumeID.bytes
        do throws(SodiumError) {
            let first = try deriveKey(from: metadata, label: KeyLabel.keybagDevice, context: uuid.span)
            layout.deviceMAC = mac256(
                first, bytes.span.extracting(KeybagLayout.deviceAuthenticated(length: bytes.count)))
            bytes = layout.serialized()
            let second = try deriveKey(from: unlock, label: KeyLabel.keybagUnlock, context: uuid.span)
            layout.unlockMAC = mac256(
                second, bytes.span.extracting(KeybagLayout.unlockAuthenticated(length: bytes.count)))
        } catch {
            throw .memory(error)
        }
        // A keybag that cannot be read again must not be written.
        try self.init(parsing: layout.serialized())
    }

    /// Signs `layout` with both keys of a bundle.
    init(signing layout: KeybagLayout, _ keys: borrowing VolumeKeys) throws(KeybagError) {
        let metadata = try secretMemory { () throws(SodiumError) in try keys.key(.metadata) }
        let unlock = try secretMemory { () throws(SodiumError) in try keys.key(.unlockAuthentication) }
        try self.init(signing: layout, metadata: metadata, unlock: unlock)
    }

    /// The volume's UUID. Like all fields, it cannot be trusted before `open` or `unlock`.
    package var volumeID: VolumeID { layout.volumeID }
    /// The volume's cipher for blocks.
    package var suite: CipherSuite { layout.suite }
    /// Raised by every change.
    package var serial: UInt64 { layout.serial }
    /// X25519 public key of class B.
    package var publicKey: InlineArray<32, UInt8> { layout.publicKey }
    /// Whether the device key is enough to mount. Without one there is no state before first unlock.
    package var hasDeviceKey: Bool { !layout.hasNoDeviceKey }
    /// The second MAC, pinned in the state file.
    package var unlockMAC: InlineArray<32, UInt8> { layout.unlockMAC }
    /// The generations that new wraps use, by class number; 0 is the metadata key's.
    package var generations: [UInt16] { (0..<8).map { layout.generations[$0] } }

    /// The program that wrote the keybag last.
    package var writer: String? { layout.writer }
    /// Features that a program may ignore.
    package var compatibleFeatures: UInt32 { layout.compatibleFeatures }
    /// Features that a program must know to change the volume.
    package var readOnlyFeatures: UInt32 { layout.readOnlyFeatures }
    /// Whether this program does not know a feature that it must know to change the volume.
    package var isReadOnly: Bool { layout.unknownReadOnlyFeatures != 0 }

    /// Refuses to change a volume with a feature that this program must know for that.
    package func requireWritable() throws(KeybagError) {
        if isReadOnly { throw .readOnly(features: layout.unknownReadOnlyFeatures, writer: writer) }
    }

    /// The facts of a slot that a listing shows.
    package struct SlotSummary: Sendable, Equatable {
        /// The slot's number, never reused.
        package let id: UInt32
        /// The kind of credential that opens it. Nil if a newer version made the slot.
        package let kind: SlotLayout.Kind?
        /// The number of the kind.
        package let kindNumber: UInt8
        /// Whether it needs the device key too.
        package let isBound: Bool
        /// The cost of its password hash. Nil if it has none.
        package let cost: Argon2Parameters?
        /// Its name, and the date of making.
        package let label: SlotLabel
        /// The text of its recipient's public key. Nil if it has none.
        package let recipient: String?
        /// What a TPM has sealed. Nil if it is of another kind.
        package let tpm2: SlotTPM2?
        /// The security key that opens it. Nil if it is of another kind.
        package let securityKey: SlotSecurityKey?
    }

    /// The slots, in the order in which they are tried.
    package var slots: [SlotSummary] {
        layout.slots.map { slot in
            switch slot {
            case .known(let slot):
                SlotSummary(
                    id: slot.slotID, kind: slot.kind, kindNumber: slot.kind.rawValue, isBound: slot.isBoundToDevice,
                    cost: slot.derivation == .none ? nil : Argon2Parameters(passes: slot.passes, memory: slot.memory),
                    label: slot.label, recipient: slot.recipient.map { RecipientKey.text(ofPublicKey: $0.publicKey) },
                    tpm2: slot.tpm2, securityKey: slot.securityKey)
            case .newer(let slot):
                SlotSummary(
                    id: slot.slotID, kind: nil, kindNumber: slot.kind, isBound: slot.isBoundToDevice, cost: nil,
                    label: slot.label, recipient: nil, tpm2: nil, securityKey: nil)
            }
        }
    }
}
