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

/// A class key of a generation that the keybag does not name for new wraps.
package struct FormerKey: Hashable, Sendable {
    /// The number of the class.
    package let number: UInt8
    /// The key's generation.
    package let generation: UInt16

    /// Names a key.
    package init(number: UInt8, generation: UInt16) {
        self.number = number
        self.generation = generation
    }
}

/// Every key of a volume, verified against both MACs of its keybag.
package struct VolumeKeys: ~Copyable, Sendable {
    /// The volume that they belong to.
    package let volumeID: VolumeID
    /// The number of the slot that they are from. Nil if they are new.
    package let slot: UInt32?
    /// Every key, of all generations.
    let bundle: KeyBundle
    /// The generations that new wraps use, by class number.
    let generations: [UInt16]

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

    /// The keys of classes that new wraps do not use any more, of all that this program knows.
    package var formerKeys: Set<FormerKey> {
        Set(
            bundle.entries.compactMap { entry in
                guard Self.rotatedTypes.contains(entry.type),
                    entry.generation != entry.type.generation(in: generations)
                else { return nil }
                return FormerKey(number: entry.type.number, generation: entry.generation)
            })
    }

    /// The keys of classes, of all generations.
    package var everyClassKey: Set<FormerKey> {
        Set(
            bundle.entries.filter { Self.rotatedTypes.contains($0.type) }.map {
                FormerKey(number: $0.type.number, generation: $0.generation)
            })
    }

    private static let rotatedTypes = ProtectionClass.allCases.map { BundleEntry.KeyType.classKey($0) }

    /// The same keys, a new U, and new keys of the next generation for `classes`.
    func rotated(_ classes: [ProtectionClass]) throws(KeybagError) -> VolumeKeys {
        var generations = generations
        var added: [BundleEntry] = []
        for type in classes.map({ BundleEntry.KeyType.classKey($0) }) {
            let present = bundle.entries.filter { $0.type == type }
            let highest = present.map(\.generation).max() ?? 0
            guard highest < UInt16.max else { throw .numbersUsedUp }
            let flags = present.first { $0.generation == type.generation(in: generations) }?.flags ?? 0
            generations[Int(type.number)] = highest + 1
            added.append(BundleEntry(type: type, flags: flags, generation: highest + 1))
        }
        let renewed = try secretMemory { () throws(SodiumError) in
            try bundle.renewed(.unlockAuthentication, adding: added)
        }
        return VolumeKeys(volumeID: volumeID, slot: slot, bundle: renewed, generations: generations)
    }

    /// The same without the keys of `former`. Those in use stay.
    func dropping(_ former: Set<FormerKey>) throws(KeybagError) -> VolumeKeys {
        let dropped = former.intersection(formerKeys)
        let rest = try secretMemory { () throws(SodiumError) in
            try bundle.filtered { !dropped.contains(FormerKey(number: $0.type.number, generation: $0.generation)) }
        }
        return VolumeKeys(volumeID: volumeID, slot: slot, bundle: rest, generations: generations)
    }

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
