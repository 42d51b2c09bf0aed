// The errors of the secret store.

package import HostSystem
package import SodiumKit
package import VolumeFormat

/// Why an item could not be read or written.
package enum SecretError: Error {
    /// The class is closed in the volume's current state.
    case locked(ProtectionClass)
    /// An item with the same identifying attributes exists.
    case duplicate
    /// The item has been removed in the meantime.
    case notFound
    /// Another program has changed the item in the meantime.
    case changed
    /// The secret is longer than `SecretStore.largestSecret`.
    case tooLong
    /// The attributes do not fit into a record.
    case tooManyAttributes
    /// The directory of the secrets belongs to another user, or other users may write to it.
    case notOwn(HostPath)
    /// A system call failed.
    case system(SystemError)
    /// No locked memory is available.
    case memory(SodiumError)
}
