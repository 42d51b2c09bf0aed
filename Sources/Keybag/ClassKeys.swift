// The keys of one class in memory, of all generations.

import SodiumKit
import VolumeFormat

/// The keys of a class. Wraps use the generation that the keybag names. Older generations only open.
struct ClassKeys: ~Copyable, Sendable {
    private let type: BundleEntry.KeyType
    private let protectionClass: ProtectionClass
    private let volumeID: VolumeID
    private let generation: UInt16
    private let bundle: KeyBundle
    /// The key that opens wraps of `generation`, so that it is not made for each file: for class B the private key, else the
    /// wrap key.
    private let opener: SecretKey

    /// The keys of `protectionClass` in `bundle`. Nil if it has none of `generation`, which the keybag names.
    static func make(
        _ protectionClass: ProtectionClass, from bundle: borrowing KeyBundle, generation: UInt16, volumeID: VolumeID
    ) throws(SodiumError) -> ClassKeys? {
        let type = BundleEntry.KeyType.classKey(protectionClass)
        guard let key = try bundle.key(type, generation: generation) else { return nil }
        return ClassKeys(
            type: type, protectionClass: protectionClass, volumeID: volumeID, generation: generation,
            bundle: try bundle.filtered { $0.type == type },
            opener: try opener(from: key, protectionClass, generation, volumeID))
    }

    private static func opener(
        from key: borrowing SecretKey, _ protectionClass: ProtectionClass, _ generation: UInt16, _ volumeID: VolumeID
    ) throws(SodiumError) -> SecretKey {
        if protectionClass == .completeUnlessOpen { return try key.copy() }
        let context = AssociatedData.wrapContext(volume: volumeID, class: protectionClass, generation: generation)
        return try deriveKey(from: key, label: KeyLabel.wrap, context: context.span)
    }

    /// Whether a key of `generation` is here.
    func has(_ generation: UInt16) -> Bool { bundle.hasKey(type, generation: generation) }

    /// The generations of all keys.
    var generations: [UInt16] { bundle.entries.map(\.generation) }

    /// A copy of the class key of `generation`.
    ///
    /// - Throws: `unknownGeneration`, `memory`.
    func key(_ generation: UInt16) throws(KeyError) -> SecretKey {
        let key = try keyMemory { () throws(SodiumError) in try bundle.key(type, generation: generation) }
        guard let key else { throw .unknownGeneration(generation) }
        return key
    }

    /// Lends the key that opens wraps of `generation`.
    ///
    /// - Throws: `unknownGeneration`, `memory`, and the errors of `body`.
    func withOpener<Result: ~Copyable>(
        _ generation: UInt16, _ body: (borrowing SecretKey) throws(KeyError) -> Result
    ) throws(KeyError) -> Result {
        if generation == self.generation { return try body(opener) }
        let key = try key(generation)
        let older = try keyMemory { () throws(SodiumError) in
            try Self.opener(from: key, protectionClass, generation, volumeID)
        }
        return try body(older)
    }

    /// Whether every key that both have is the same.
    func agrees(with other: borrowing ClassKeys) -> Bool { bundle.agrees(with: other.bundle) }
}
