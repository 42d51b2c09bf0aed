// The ways in which a keybag cannot be believed or opened, each a case of its own.

package import SodiumKit
package import VolumeFormat

/// Why a keybag could not be read, opened or changed.
package enum KeybagError: Error, Equatable, Sendable {
    /// Not a keybag, or one of a newer version, or cut short, or with bytes that contradict each other.
    case format(FormatError)
    /// The first MAC (from the metadata key) does not match: changed after it was written.
    case deviceMACMismatch
    /// The second MAC (from the unlock key) does not match: changed by someone who has the device key.
    case unlockMACMismatch
    /// The public key of class B is not that of the private half.
    case publicKeyMismatch
    /// The device's slot and the passphrase's slot bring different keys D or M.
    case bundleMismatch
    /// A slot opened, and what is in it is not a bundle of keys.
    case malformedBundle(slot: UInt32)
    /// The device key is not that of this volume.
    case wrongDeviceKey
    /// The volume has no device key: only a passphrase or the recovery code opens it.
    case noDeviceSlot
    /// No passphrase slot opens with this passphrase.
    case wrongPassphrase
    /// The passphrase could not be tried everywhere: slots bound to the device key need it, and it is not here.
    case deviceKeyNeeded
    /// The volume has no passphrase slot.
    case noPassphraseSlot
    /// The recovery code has a typing error: its checksum does not match.
    case recoveryCodeTypo
    /// The recovery code is well-formed and not that of this volume.
    case wrongRecoveryCode
    /// An empty passphrase, or one above 4 KiB.
    case unusablePassphrase
    /// A slot asks for a password hash outside of what is accepted, or beyond this machine's memory.
    case passwordHashRefused(passes: UInt32, memory: UInt64)
    /// Without the device key `slots` would have to be tried, which together ask for more than is accepted of a keybag that
    /// nothing has authenticated.
    case passwordHashesRefused(slots: Int)
    /// No slot has this ID.
    case noSuchSlot(UInt32)
    /// The slot is not a passphrase's.
    case notAPassphraseSlot(UInt32)
    /// Removing it would leave the volume without any passphrase.
    case lastPassphrase
    /// No room for another slot.
    case full
    /// No locked memory for a secret.
    case memory(SodiumError)
}

/// Runs `body`, whose failures are those of locked memory.
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
