// A volume's keybag as a value: strictly parsed, authenticated when it is opened, changed only into a new one.

package import SodiumKit
package import VolumeFormat

/// The keybag of a volume.
///
/// Parsing believes nothing. `open` checks the first MAC, `unlock` both; every change gives a new value with a higher
/// serial and fresh MACs, for the caller to write atomically and to pin in the state file.
package struct Keybag: Sendable {
    /// The bytes as last parsed or made.
    package let bytes: [UInt8]
    let layout: KeybagLayout

    /// Parses `bytes` strictly.
    package init(parsing bytes: [UInt8]) throws(KeybagError) {
        do throws(FormatError) {
            layout = try KeybagLayout(parsing: bytes.span)
        } catch {
            throw .format(error)
        }
        self.bytes = bytes
    }

    /// Signs `layout` with both keys.
    init(
        signing layout: consuming KeybagLayout, metadata: borrowing SecretKey, unlock: borrowing SecretKey
    ) throws(KeybagError) {
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
        // What cannot be read again must not be written.
        try self.init(parsing: layout.serialized())
    }

    /// The volume's UUID. Not to be believed before `open` or `unlock`, as everything here.
    package var volumeID: VolumeID { layout.volumeID }
    /// The volume's bulk cipher.
    package var suite: CipherSuite { layout.suite }
    /// Raised by every change.
    package var serial: UInt64 { layout.serial }
    /// X25519 public key of class B.
    package var publicKey: InlineArray<32, UInt8> { layout.publicKey }
    /// Whether mounting needs only the device key; without one there is no state before first unlock.
    package var hasDeviceKey: Bool { !layout.hasNoDeviceKey }
    /// The second MAC, pinned in the state file.
    package var unlockMAC: InlineArray<32, UInt8> { layout.unlockMAC }
    /// The generations of the class keys by class number.
    package var generations: [UInt16] { (0..<8).map { layout.generations[$0] } }

    /// What a listing shows of a slot.
    package struct SlotSummary: Sendable, Equatable {
        /// The slot's number, never reused.
        package let id: UInt32
        /// What opens it.
        package let kind: SlotLayout.Kind
        /// Whether it needs the device key too.
        package let isBound: Bool
        /// The cost of its password hash; nil where there is none.
        package let cost: Argon2Parameters?
    }

    /// The slots, in the order in which they are tried.
    package var slots: [SlotSummary] {
        layout.slots.map { slot in
            SlotSummary(
                id: slot.slotID, kind: slot.kind, isBound: slot.isBoundToDevice,
                cost: slot.derivation == .none ? nil : Argon2Parameters(passes: slot.passes, memory: slot.memory))
        }
    }
}
