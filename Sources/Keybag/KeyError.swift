// The ways in which a file key cannot be had or a volume's state cannot change.

package import SodiumKit
package import VolumeFormat

/// Why a key operation of `KeyRing` failed.
package enum KeyError: Error, Equatable, Sendable {
    /// The class key is not in memory: the volume is locked, or before its first unlock.
    case locked(ProtectionClass)
    /// The wrapped key, or what it is bound to, was changed.
    case authenticationFailed
    /// The header names a generation of the class key that this keybag does not hold.
    case unknownGeneration(UInt16)
    /// The keys offered belong to another volume, or to a keybag with another public key.
    case otherVolume
    /// A lock is under way; ask again when it is done.
    case lockInProgress
    /// No locked memory for a key.
    case memory(SodiumError)
}

/// Runs `body`, whose failures are those of locked memory.
func keyMemory<Result: ~Copyable>(_ body: () throws(SodiumError) -> Result) throws(KeyError) -> Result {
    do throws(SodiumError) {
        return try body()
    } catch {
        throw .memory(error)
    }
}
