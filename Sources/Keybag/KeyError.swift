// The reasons why a file key is not available or a volume's state cannot change.

package import SodiumKit
package import VolumeFormat

/// Why a key operation of `KeyRing` failed.
package enum KeyError: Error, Equatable, Sendable {
    /// The class key is not in memory, because the volume is locked or before its first unlock.
    case locked(ProtectionClass)
    /// The wrapped key, or the data it is bound to, was changed.
    case authenticationFailed
    /// The header names a generation of the class key that this keybag does not contain.
    case unknownGeneration(UInt16)
    /// A newer version has made the late file, whose header is genuine.
    case newer
    /// The keys offered belong to another volume, or to a keybag with another public key.
    case otherVolume
    /// A lock is running. Ask again when it is done.
    case lockInProgress
    /// The volume has been locked again since the lock that the caller meant.
    case lockedSince
    /// Not enough locked memory for a key.
    case memory(SodiumError)
}

/// Runs `body` and turns its locked memory errors into `KeyError`.
func keyMemory<Result: ~Copyable>(_ body: () throws(SodiumError) -> Result) throws(KeyError) -> Result {
    do throws(SodiumError) {
        return try body()
    } catch {
        throw .memory(error)
    }
}
