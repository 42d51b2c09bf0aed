// Installs class keys in memory, one whole set at a time.

import SodiumKit
import VolumeFormat

/// The keys that an unlock adds to memory, prepared before the state lock is taken.
struct PreparedKeys: ~Copyable, Sendable {
    let complete: ClassKeys
    let unlessOpen: ClassKeys
    let whenInactive: ClassKeys
    let untilFirstUnlock: ClassKeys
    let none: ClassKeys
    /// The generations that new wraps use, by class number.
    let generations: [UInt16]
    /// Class B's public key, of the generation that new wraps use.
    let publicKey: InlineArray<32, UInt8>

    /// The keys that no class needs, as the unlock-authentication key U, are wiped here.
    ///
    /// Nil if a class has no key of its generation.
    static func prepare(_ keys: consuming VolumeKeys) throws(SodiumError) -> PreparedKeys? {
        let generations = keys.generations
        let publicKey = X25519.publicKey(of: try keys.key(.classKey(.completeUnlessOpen)))
        guard let complete = try keys.classKeys(.complete, generations),
            let unlessOpen = try keys.classKeys(.completeUnlessOpen, generations),
            let whenInactive = try keys.classKeys(.completeWhenUserInactive, generations),
            let untilFirstUnlock = try keys.classKeys(.completeUntilFirstUserAuthentication, generations),
            let none = try keys.classKeys(.none, generations)
        else { return nil }
        return PreparedKeys(
            complete: complete, unlessOpen: unlessOpen, whenInactive: whenInactive, untilFirstUnlock: untilFirstUnlock,
            none: none, generations: generations, publicKey: publicKey)
    }
}

extension VolumeKeys {
    fileprivate func classKeys(
        _ protectionClass: ProtectionClass, _ generations: [UInt16]
    ) throws(SodiumError) -> ClassKeys? {
        try ClassKeys.make(
            protectionClass, from: bundle, generation: generations[Int(protectionClass.rawValue)], volumeID: volumeID)
    }
}

extension HeldKeys {
    mutating func install(_ keys: consuming PreparedKeys) {
        note(keys.complete.generations, of: .complete)
        note(keys.unlessOpen.generations, of: .completeUnlessOpen)
        note(keys.whenInactive.generations, of: .completeWhenUserInactive)
        note(keys.untilFirstUnlock.generations, of: .completeUntilFirstUserAuthentication)
        complete = .present(keys.complete)
        unlessOpen = .present(keys.unlessOpen)
        whenInactive = .present(keys.whenInactive)
        untilFirstUnlock = .present(keys.untilFirstUnlock)
        generations = keys.generations
        publicKey = keys.publicKey
        install(none: keys.none)
    }

    /// Installs the keys of class D, which the device key opens.
    mutating func install(none keys: consuming ClassKeys) {
        note(keys.generations, of: .none)
        none = .present(keys)
    }

    private mutating func note(_ generations: [UInt16], of protectionClass: ProtectionClass) {
        seenGenerations[Int(protectionClass.rawValue)] = generations
    }

    /// Whether `keys` are these keys, or those of the same volume with more or fewer generations. The keys that new wraps use now
    /// must be among them: a keybag from before a rotation has them not.
    func agrees(with keys: borrowing PreparedKeys) throws(KeyError) -> Bool {
        guard keys.complete.has(generation(of: .complete)),
            keys.untilFirstUnlock.has(generation(of: .completeUntilFirstUserAuthentication)),
            keys.none.has(generation(of: .none)),
            keys.whenInactive.has(generation(of: .completeWhenUserInactive)),
            keys.unlessOpen.has(generation(of: .completeUnlessOpen))
        else { return false }
        // A lock wipes class B's key, so its public key is compared.
        let privateKey = try keys.unlessOpen.key(generation(of: .completeUnlessOpen))
        guard haveSameBytes(X25519.publicKey(of: privateKey), publicKey) else { return false }
        return Self.isSame(none, keys.none) && Self.isSame(untilFirstUnlock, keys.untilFirstUnlock)
            && Self.isSame(complete, keys.complete) && Self.isSame(unlessOpen, keys.unlessOpen)
            && Self.isSame(whenInactive, keys.whenInactive)
    }

    private static func isSame(_ held: borrowing Held, _ offered: borrowing ClassKeys) -> Bool {
        switch held {
        case .absent: true
        case .present(let keys): keys.agrees(with: offered)
        }
    }
}
