// The keys in a slot: D and M for the device key, and all keys for a passphrase or a recovery code.

package import SodiumKit
package import VolumeFormat

/// The keys that the device key alone opens: class key D and the metadata key M.
package struct DeviceKeys: ~Copyable, Sendable {
    /// The volume that they belong to.
    package let volumeID: VolumeID
    let none: SecretKey
    let metadata: SecretKey
}

/// Every key of a volume, verified against both MACs of its keybag.
package struct VolumeKeys: ~Copyable, Sendable {
    /// The volume that they belong to.
    package let volumeID: VolumeID
    let complete: SecretKey
    let unlessOpen: SecretKey
    let untilFirstUnlock: SecretKey
    let none: SecretKey
    let metadata: SecretKey
    let unlock: SecretKey

    /// New random keys for a new volume.
    static func random(volumeID: VolumeID) throws(SodiumError) -> VolumeKeys {
        VolumeKeys(
            volumeID: volumeID, complete: try .random(), unlessOpen: try .random(), untilFirstUnlock: try .random(),
            none: try .random(), metadata: try .random(), unlock: try .random())
    }

    /// A copy of the keys, for a caller that both installs and uses them.
    package func copy() throws(SodiumError) -> VolumeKeys {
        VolumeKeys(
            volumeID: volumeID, complete: try complete.copy(), unlessOpen: try unlessOpen.copy(),
            untilFirstUnlock: try untilFirstUnlock.copy(), none: try none.copy(), metadata: try metadata.copy(),
            unlock: try unlock.copy())
    }

    /// The keys derived from the metadata key, for reading names without a mount (`fsck`, `class list`).
    package func metadataKeys() throws(SodiumError) -> MetadataKeys {
        try MetadataKeys(metadataKey: metadata, volumeID: volumeID)
    }
}
