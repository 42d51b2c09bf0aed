// What can go wrong with a secret.

package import HostSystem
package import SodiumKit
package import VolumeFormat

/// Why an item could not be read or written.
package enum SecretError: Error {
    /// The class is closed in the volume's present state.
    case locked(ProtectionClass)
    /// There is an item with the same identifying attributes.
    case duplicate
    /// The item has gone meanwhile.
    case notFound
    /// The secret is longer than `SecretStore.largestSecret`.
    case tooLong
    /// The attributes are more than a record holds.
    case tooManyAttributes
    /// The directory of the secrets is not this user's own, or others may write to it.
    case notOwn(HostPath)
    /// A system call.
    case system(SystemError)
    /// No locked memory.
    case memory(SodiumError)
}
