// Installs class keys in memory, one whole set at a time.

import SodiumKit
import VolumeFormat

/// The keys that an unlock adds to memory, prepared before the state lock is taken.
struct PreparedKeys: ~Copyable, Sendable {
    let complete: ClassKey
    let unlessOpen: SecretKey
    let untilFirstUnlock: ClassKey
    let none: ClassKey

    /// The unlock-authentication key U is not needed any more and is wiped here.
    static func prepare(_ keys: consuming VolumeKeys, generations: [UInt16]) throws(SodiumError) -> PreparedKeys {
        let volumeID = keys.volumeID
        let complete = try ClassKey.make(
            keys.complete, class: .complete, generation: generations[1], volumeID: volumeID)
        let untilFirstUnlock = try ClassKey.make(
            keys.untilFirstUnlock, class: .completeUntilFirstUserAuthentication, generation: generations[3],
            volumeID: volumeID)
        let none = try ClassKey.make(keys.none, class: .none, generation: generations[4], volumeID: volumeID)
        return PreparedKeys(
            complete: complete, unlessOpen: try keys.unlessOpen.copy(), untilFirstUnlock: untilFirstUnlock, none: none)
    }
}

extension HeldKeys {
    mutating func install(_ keys: consuming PreparedKeys) {
        complete = .present(keys.complete)
        unlessOpen = .present(keys.unlessOpen)
        untilFirstUnlock = .present(keys.untilFirstUnlock)
        none = .present(keys.none)
    }

    /// Whether the keys that stay in memory, C and D, are those of `keys`.
    func agrees(with keys: borrowing PreparedKeys) -> Bool {
        Self.isSame(none, keys.none) && Self.isSame(untilFirstUnlock, keys.untilFirstUnlock)
    }

    private static func isSame(_ held: borrowing Held<ClassKey>, _ offered: borrowing ClassKey) -> Bool {
        switch held {
        case .absent: true
        case .present(let key): key.key.isEqual(to: offered.key)
        }
    }
}
