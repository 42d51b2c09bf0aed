// Bundles as bytes in locked memory: entries of type, generation and key.

import SodiumKit
import VolumeFormat

/// The types of a bundle's entries. Class keys have their class number.
enum BundleLayout {
    static let length = BundleEntry.length
    static let metadata: UInt8 = 16
    static let unlock: UInt8 = 17
    /// The entries of the device's slot, in this order.
    static let deviceTypes: [UInt8] = [4, metadata]
    /// The entries of every other slot, in this order.
    static let fullTypes: [UInt8] = [1, 2, 3, 4, metadata, unlock]

    /// The generation that an entry of `type` must carry.
    static func generation(of type: UInt8, in generations: [UInt16]) -> UInt16 {
        switch type {
        case metadata: generations[0]
        case unlock: 0
        default: generations[Int(type)]
        }
    }

    /// Whether `bytes` are entries of exactly `types`, in order, of the keybag's generations.
    static func isValid(_ bytes: Span<UInt8>, types: [UInt8], generations: [UInt16]) -> Bool {
        guard bytes.count == types.count * length else { return false }
        for (index, type) in types.enumerated() {
            let entry = bytes.extracting(index * length..<(index + 1) * length)
            guard entry[0] == type, entry[1] == 0,
                entry.littleEndian(at: 2, as: UInt16.self) == generation(of: type, in: generations),
                entry.littleEndian(at: 4, as: UInt32.self) == 0
            else { return false }
        }
        return true
    }

    /// The key of entry `index`.
    static func key(_ index: Int, of bytes: Span<UInt8>) throws(SodiumError) -> SecretKey {
        try SecretKey(copying: bytes.extracting(index * length + 8..<(index + 1) * length))
    }

    static func store(
        _ key: borrowing SecretKey, type: UInt8, generations: [UInt16], at index: Int,
        into bytes: inout MutableSpan<UInt8>
    ) {
        let offset = index * length
        bytes.storeLittleEndian(type, at: offset)
        bytes.storeLittleEndian(0 as UInt8, at: offset + 1)
        bytes.storeLittleEndian(generation(of: type, in: generations), at: offset + 2)
        bytes.storeLittleEndian(0 as UInt32, at: offset + 4)
        key.withBytes { bytes.copy($0, to: offset + 8) }
    }
}

extension VolumeKeys {
    /// The keys of a decrypted bundle. Nil if the bytes are not a bundle.
    static func parse(
        _ bundle: borrowing SecretBytes, volumeID: VolumeID, generations: [UInt16]
    ) throws(SodiumError) -> VolumeKeys? {
        let valid = bundle.withBytes {
            BundleLayout.isValid($0, types: BundleLayout.fullTypes, generations: generations)
        }
        guard valid else { return nil }
        let complete = try bundle.withBytes { bytes throws(SodiumError) in try BundleLayout.key(0, of: bytes) }
        let unlessOpen = try bundle.withBytes { bytes throws(SodiumError) in try BundleLayout.key(1, of: bytes) }
        let untilFirstUnlock = try bundle.withBytes { bytes throws(SodiumError) in try BundleLayout.key(2, of: bytes) }
        let none = try bundle.withBytes { bytes throws(SodiumError) in try BundleLayout.key(3, of: bytes) }
        let metadata = try bundle.withBytes { bytes throws(SodiumError) in try BundleLayout.key(4, of: bytes) }
        let unlock = try bundle.withBytes { bytes throws(SodiumError) in try BundleLayout.key(5, of: bytes) }
        return VolumeKeys(
            volumeID: volumeID, complete: complete, unlessOpen: unlessOpen, untilFirstUnlock: untilFirstUnlock,
            none: none, metadata: metadata, unlock: unlock)
    }

    /// The bundle of every key.
    func bundle(generations: [UInt16]) throws(SodiumError) -> SecretBytes {
        var result = try SecretBytes(byteCount: BundleLayout.fullTypes.count * BundleLayout.length)
        result.withMutableBytes { bytes in
            BundleLayout.store(complete, type: 1, generations: generations, at: 0, into: &bytes)
            BundleLayout.store(unlessOpen, type: 2, generations: generations, at: 1, into: &bytes)
            BundleLayout.store(untilFirstUnlock, type: 3, generations: generations, at: 2, into: &bytes)
            BundleLayout.store(none, type: 4, generations: generations, at: 3, into: &bytes)
            BundleLayout.store(metadata, type: BundleLayout.metadata, generations: generations, at: 4, into: &bytes)
            BundleLayout.store(unlock, type: BundleLayout.unlock, generations: generations, at: 5, into: &bytes)
        }
        return result
    }

    /// The bundle of D and M, for the device's slot.
    func deviceBundle(generations: [UInt16]) throws(SodiumError) -> SecretBytes {
        var result = try SecretBytes(byteCount: BundleLayout.deviceTypes.count * BundleLayout.length)
        result.withMutableBytes { bytes in
            BundleLayout.store(none, type: 4, generations: generations, at: 0, into: &bytes)
            BundleLayout.store(metadata, type: BundleLayout.metadata, generations: generations, at: 1, into: &bytes)
        }
        return result
    }
}

extension DeviceKeys {
    /// The keys of the device's decrypted bundle. Nil if the bytes are not one.
    static func parse(
        _ bundle: borrowing SecretBytes, volumeID: VolumeID, generations: [UInt16]
    ) throws(SodiumError) -> DeviceKeys? {
        let valid = bundle.withBytes {
            BundleLayout.isValid($0, types: BundleLayout.deviceTypes, generations: generations)
        }
        guard valid else { return nil }
        let none = try bundle.withBytes { bytes throws(SodiumError) in try BundleLayout.key(0, of: bytes) }
        let metadata = try bundle.withBytes { bytes throws(SodiumError) in try BundleLayout.key(1, of: bytes) }
        return DeviceKeys(
            volumeID: volumeID, none: none, metadata: metadata)
    }
}
