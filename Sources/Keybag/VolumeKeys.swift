// The keys in a slot: D and M for the device key, and all keys for a passphrase or a recovery code.

package import SodiumKit
package import VolumeFormat

/// The keys that the device key alone opens: class key D and the metadata key M.
package struct DeviceKeys: ~Copyable, Sendable {
    /// The volume that they belong to.
    package let volumeID: VolumeID
    let bundle: KeyBundle
    private let generations: [UInt16]

    /// The keys of the device's decrypted bundle. Nil if the bytes are not one.
    static func parse(_ bytes: consuming SecretBytes, volumeID: VolumeID, generations: [UInt16]) -> DeviceKeys? {
        let bundle = KeyBundle.parse(bytes, needed: BundleEntry.KeyType.device, generations: generations)
        guard let bundle else { return nil }
        return DeviceKeys(volumeID: volumeID, bundle: bundle, generations: generations)
    }

    /// A copy of the key of `type` that is in use.
    func key(_ type: BundleEntry.KeyType) throws(SodiumError) -> SecretKey { try bundle.needed(type, generations) }
}

/// Every key of a volume, verified against both MACs of its keybag.
package struct VolumeKeys: ~Copyable, Sendable {
    /// The volume that they belong to.
    package let volumeID: VolumeID
    /// The number of the slot that they are from. Nil if they are new.
    package let slot: UInt32?
    /// Every key, of all generations.
    let bundle: KeyBundle
    private let generations: [UInt16]

    /// The keys of a decrypted bundle. Nil if the bytes are not one.
    static func parse(
        _ bytes: consuming SecretBytes, volumeID: VolumeID, slot: UInt32, generations: [UInt16]
    ) -> VolumeKeys? {
        let bundle = KeyBundle.parse(bytes, needed: BundleEntry.KeyType.all, generations: generations)
        guard let bundle else { return nil }
        return VolumeKeys(volumeID: volumeID, slot: slot, bundle: bundle, generations: generations)
    }

    /// New random keys for a new volume, of generation 0.
    static func random(volumeID: VolumeID) throws(SodiumError) -> VolumeKeys {
        let entries = BundleEntry.KeyType.all.map { type in
            let isInDeviceSlot = BundleEntry.KeyType.device.contains(type)
            return BundleEntry(type: type, flags: isInDeviceSlot ? BundleEntry.device : 0, generation: 0)
        }
        let generations = [UInt16](repeating: 0, count: 8)
        return VolumeKeys(volumeID: volumeID, slot: nil, bundle: try .random(entries), generations: generations)
    }

    /// A copy of the keys, for a caller that both installs and uses them.
    package func copy() throws(SodiumError) -> VolumeKeys {
        VolumeKeys(volumeID: volumeID, slot: slot, bundle: try bundle.copy(), generations: generations)
    }

    /// A copy of the key of `type` that is in use.
    func key(_ type: BundleEntry.KeyType) throws(SodiumError) -> SecretKey { try bundle.needed(type, generations) }

    /// The entries of the device's slot. Nil if D or M is not among them.
    func deviceBundle() throws(SodiumError) -> KeyBundle? {
        let bundle = try bundle.filtered(\.isInDeviceSlot)
        let generations = generations
        let isWhole = BundleEntry.KeyType.device.allSatisfy {
            bundle.hasKey($0, generation: $0.generation(in: generations))
        }
        guard isWhole else { return nil }
        return bundle
    }

    /// The keys derived from the metadata key, for reading names without a mount (`fsck`, `class list`).
    package func metadataKeys() throws(SodiumError) -> MetadataKeys {
        try MetadataKeys(metadataKey: key(.metadata), volumeID: volumeID)
    }
}

extension KeyBundle {
    /// A copy of the key of `type` that is in use, which parsing has found.
    fileprivate func needed(_ type: BundleEntry.KeyType, _ generations: [UInt16]) throws(SodiumError) -> SecretKey {
        guard let key = try key(type, generation: type.generation(in: generations)) else {
            preconditionFailure("a key that parsing has found")
        }
        return key
    }
}
