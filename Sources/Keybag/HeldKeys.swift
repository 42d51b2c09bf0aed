// The class keys that are in memory, visible only inside the state lock. Nothing else ever holds one.

package import VolumeFormat

/// The keys of a class or their absence. Leaving `present` wipes them.
enum Held: ~Copyable, Sendable {
    case absent
    case present(ClassKeys)

    var isPresent: Bool {
        switch self {
        case .absent: false
        case .present: true
        }
    }

    /// The generations of the keys; nil if they are absent.
    var generations: [UInt16]? {
        switch self {
        case .absent: nil
        case .present(let keys): keys.generations
        }
    }

    /// Whether the class has no key of this generation, as far as the keys show it, or `seen` if they are absent.
    func isMissing(generation: UInt16, seen: [UInt16]?) -> Bool {
        switch self {
        case .absent: seen.map { !$0.contains(generation) } ?? false
        case .present(let keys): !keys.has(generation)
        }
    }
}

/// The state and the class keys, lent to `KeyRing.withState` while the state cannot change.
///
/// A key is tested and used in one such loan, so that a lock cannot come in between.
@usableFromInline package struct HeldKeys: ~Copyable {
    /// The states of the volume and of class 7, fixed while the loan lasts.
    package internal(set) var states: VolumeStates

    let volumeID: VolumeID
    /// X25519 public key of class B, 32 bytes.
    var publicKey: InlineArray<32, UInt8>
    /// The generations that new wraps use, by class number.
    var generations: [UInt16]
    let reads: ReadCount
    let inactiveReads: ReadCount
    /// Whether the public key of class B is known to be the volume's own, because an unlock verified it now or before.
    var isPublicKeyProven: Bool
    var complete: Held = .absent
    var unlessOpen: Held = .absent
    var whenInactive: Held = .absent
    var untilFirstUnlock: Held = .absent
    var none: Held = .absent
    /// An unlock has taken its keys in, and its classes are not open yet. Class 7 does not close meanwhile.
    var isOpening = false
    /// The generations that each class had when its keys were installed, by class number. They are no secret, and stay through
    /// a lock. Nil before the keys were installed.
    var seenGenerations = [[UInt16]?](repeating: nil, count: 8)

    /// The volume's state.
    package var state: VolumeState { states.volume }

    /// The state that `protectionClass` obeys.
    package func state(of protectionClass: ProtectionClass) -> VolumeState { states[protectionClass] }

    /// Whether files of `protectionClass` can be opened now.
    package func hasKey(_ protectionClass: ProtectionClass) -> Bool {
        switch protectionClass {
        case .complete: complete.isPresent
        case .completeUnlessOpen: unlessOpen.isPresent
        case .completeWhenUserInactive: whenInactive.isPresent
        case .completeUntilFirstUserAuthentication: untilFirstUnlock.isPresent
        case .none: none.isPresent
        }
    }

    /// Whether `protectionClass` has no key of such a generation. A newer version has made a header that names it. False before
    /// the keys of the class were in memory for the first time: see `isKnown`.
    package func isMissing(generation: UInt16, of protectionClass: ProtectionClass) -> Bool {
        let seen = seenGenerations[Int(protectionClass.rawValue)]
        return switch protectionClass {
        case .complete: complete.isMissing(generation: generation, seen: seen)
        case .completeUnlessOpen: unlessOpen.isMissing(generation: generation, seen: seen)
        case .completeWhenUserInactive: whenInactive.isMissing(generation: generation, seen: seen)
        case .completeUntilFirstUserAuthentication: untilFirstUnlock.isMissing(generation: generation, seen: seen)
        case .none: none.isMissing(generation: generation, seen: seen)
        }
    }

    /// Whether `protectionClass` has a key of such a generation. Before its keys were in memory only the generation is known
    /// that the keybag names.
    package func isKnown(generation: UInt16, of protectionClass: ProtectionClass) -> Bool {
        seenGenerations[Int(protectionClass.rawValue)]?.contains(generation)
            ?? (generation == self.generation(of: protectionClass))
    }

    /// Whether a file key can be wrapped for `protectionClass` now. Class B needs no secret, but a public key that is known to
    /// be the volume's own.
    package func canWrap(_ protectionClass: ProtectionClass) -> Bool {
        protectionClass == .completeUnlessOpen ? isPublicKeyProven : hasKey(protectionClass)
    }

    /// The generation of the class key that new headers carry.
    package func generation(of protectionClass: ProtectionClass) -> UInt16 {
        generations[Int(protectionClass.rawValue)]
    }

    /// Counts a read of a file of class A or 7 that has passed its test. `KeyRing.endRead(of:)` ends it.
    ///
    /// - Throws: `KeyError.locked` unless the class is open. Nothing is counted then.
    package func beginRead(of protectionClass: ProtectionClass = .complete) throws(KeyError) {
        guard state(of: protectionClass) == .unlocked else { throw .locked(protectionClass) }
        reads(of: protectionClass).begin()
    }

    private func reads(of protectionClass: ProtectionClass) -> ReadCount {
        protectionClass == .completeWhenUserInactive ? inactiveReads : reads
    }
}
