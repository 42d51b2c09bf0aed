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
        // A keybag that cannot be read again must not be written.
        try self.init(parsing: layout.serialized())
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
    /// The generations of the class keys by class number.
    package var generations: [UInt16] { (0..<8).map { layout.generations[$0] } }

    /// The facts of a slot that a listing shows.
    package struct SlotSummary: Sendable, Equatable {
        /// The slot's number, never reused.
        package let id: UInt32
        /// The kind of credential that opens it.
        package let kind: SlotLayout.Kind
        /// Whether it needs the device key too.
        package let isBound: Bool
        /// The cost of its password hash. Nil if it has none.
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
