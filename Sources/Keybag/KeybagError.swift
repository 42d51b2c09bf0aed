// The reasons why a keybag cannot be trusted or opened, each a case of its own.

package import SodiumKit
package import VolumeFormat

/// Why a keybag could not be read, opened or changed.
package enum KeybagError: Error, Equatable, Sendable {
    /// Not a keybag, or of the version that was never released, cut short, or with contradictory bytes.
    case format(FormatError)
    /// Made by a newer version, which `writer` names. Nothing has verified that text.
    case newer(FormatError, writer: String?)
    /// The volume has features that a program must know to change it. `writer` is not verified either.
    case readOnly(features: UInt32, writer: String?)
    /// The first MAC (from the metadata key) does not match, so the keybag was changed after it was written.
    case deviceMACMismatch
    /// The second MAC (from the unlock key) does not match, so someone with the device key changed the keybag.
    case unlockMACMismatch
    /// The public key of class B does not match the private key.
    case publicKeyMismatch
    /// The device's slot and the passphrase's slot contain different keys D or M.
    case bundleMismatch
    /// A slot opened, but it does not contain a bundle of keys.
    case malformedBundle(slot: UInt32)
    /// The device key does not belong to this volume.
    case wrongDeviceKey
    /// The volume has no device key. Only a passphrase or the recovery code opens it.
    case noDeviceSlot
    /// No slot opens with the device key alone, because a newer version made this one in place of the device's.
    case newerDeviceSlot(UInt32)
    /// No passphrase slot opens with this passphrase.
    case wrongPassphrase
    /// The passphrase could not be tried in all slots, because some are bound to the device key, which is missing.
    case deviceKeyNeeded
    /// The volume has no passphrase slot.
    case noPassphraseSlot
    /// The recovery code has a typing error: its checksum does not match.
    case recoveryCodeTypo
    /// The recovery code is well-formed but does not belong to this volume.
    case wrongRecoveryCode
    /// The text is not a recipient's key: it has another form, or its checksum does not match.
    case recipientKeyTypo
    /// No slot is encrypted to this recipient.
    case wrongRecipientKey
    /// Nothing can be encrypted to the public key.
    case unusableRecipient
    /// What a TPM gave opens no slot.
    case wrongTPM2
    /// What a TPM gave opens a slot only together with the device key, which is missing.
    case tpm2NeedsDeviceKey
    /// A PIN of a TPM that is empty or too long.
    case unusablePIN
    /// What the security key gave opens no slot, so the slot was changed, or the key is not the one it seems to be.
    case wrongSecurityKey
    /// An empty passphrase, or one above 4 KiB.
    case unusablePassphrase
    /// The costs of a slot's password hash are outside the accepted limits, or exceed this machine's memory.
    case passwordHashRefused(passes: UInt32, memory: UInt64)
    /// Before the first MAC is checked, `slots` must be tried. Together they cost more than is accepted of a keybag that is not
    /// authenticated.
    case passwordHashesRefused(slots: Int)
    /// No slot has this ID.
    case noSuchSlot(UInt32)
    /// The slot is not a passphrase slot.
    case notAPassphraseSlot(UInt32)
    /// The slot is the device key's, which is not removed alone.
    case deviceSlot(UInt32)
    /// A newer version made the slot.
    case newerSlot(UInt32)
    /// The label of a slot is empty, too long or has control characters.
    case unusableLabel
    /// Removing it would leave the volume without any passphrase.
    case lastPassphrase
    /// Removing it would leave no slot that opens the volume without the device key.
    case lastPortableSlot
    /// There is no room for another slot.
    case full
    /// The keybag already has the highest slot number or serial, so it cannot be changed in this way.
    case numbersUsedUp
    /// Not enough locked memory for a secret.
    case memory(SodiumError)
}

/// Runs `body` and turns its locked memory errors into `KeybagError`.
func secretMemory<Result: ~Copyable>(
    _ body: () throws(SodiumError) -> Result
) throws(KeybagError) -> Result {
    do throws(SodiumError) {
        return try body()
    } catch {
        throw .memory(error)
    }
}

/// Compares bytes that are not secret.
func haveSameBytes(_ one: InlineArray<32, UInt8>, _ other: InlineArray<32, UInt8>) -> Bool {
    (0..<32).allSatisfy { one[$0] == other[$0] }
}
