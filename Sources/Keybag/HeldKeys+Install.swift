// Installs class keys in memory, one whole set at a time.

import SodiumKit
import VolumeFormat

/// The keys that an unlock adds to memory, prepared before the state lock is taken.
struct PreparedKeys: ~Copyable, Sendable {
    let complete: ClassKeys
    let unlessOpen: ClassKeys
    let untilFirstUnlock: ClassKeys
    let none: ClassKeys

    /// The keys that no class needs, as the unlock-authentication key U, are wiped here.
    ///
    /// - Parameter generations: those of the mounted keybag. Nil if a class has no key of its generation.
    static func prepare(_ keys: consuming VolumeKeys, generations: [UInt16]) throws(SodiumError) -> PreparedKeys? {
        guard let complete = try keys.classKeys(.complete, generations),
            let unlessOpen = try keys.classKeys(.completeUnlessOpen, generations),
            let untilFirstUnlock = try keys.classKeys(.completeUntilFirstUserAuthentication, generations),
            let none = try keys.classKeys(.none, generations)
        else { return nil }
        return PreparedKeys(
            complete: complete, unlessOpen: unlessOpen, untilFirstUnlock: untilFirstUnlock, none: none)
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
        note(keys.untilFirstUnlock.generations, of: .completeUntilFirstUserAuthentication)
        complete = .present(keys.complete)
        unlessOpen = .present(keys.unlessOpen)
        untilFirstUnlock = .present(keys.untilFirstUnlock)
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

    /// Whether the keys that stay in memory, C and D, are those of `keys`.
    func agrees(with keys: borrowing PreparedKeys) -> Bool {
        Self.isSame(none, keys.none) && Self.isSame(untilFirstUnlock, keys.untilFirstUnlock)
    }

    private static func isSame(_ held: borrowing Held, _ offered: borrowing ClassKeys) -> Bool {
        switch held {
        case .absent: true
        case .present(let keys): keys.agrees(with: offered)
        }
    }
}
