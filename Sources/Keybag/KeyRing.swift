// The only owner of class keys, and the state machine of the volume's lock.

public import HostSystem
package import SodiumKit
import Synchronization
package import VolumeFormat

/// The outcome of an unlock.
package enum UnlockOutcome: Sendable, Equatable {
    /// The first unlock since mounting. Class C was added as well.
    case first
    /// The volume had been locked.
    case again
    /// The volume was already unlocked. Nothing changed.
    case alreadyUnlocked
}

/// The class keys of a mounted volume, and its state.
///
/// The states are `before first unlock` → `unlocked` → `locking` → `locked` → `unlocked`, or `locking` → `sweeping` → `locked`.
/// The shared side of the state lock covers testing and using a key, but never I/O on the backing store. Transitions take its
/// exclusive side. The lock is not recursive, so code inside `withState` must not call the ring, except `endRead()`.
@usableFromInline package final class KeyRing: Sendable {
    /// The volume's identifier.
    package let volumeID: VolumeID
    /// The volume's cipher for blocks.
    package let suite: CipherSuite
    /// X25519 public key of class B, 32 bytes.
    package let publicKey: InlineArray<32, UInt8>
    /// The keys for headers, names, links and attributes. They are present in every state.
    package let metadata: MetadataKeys
    /// Whether the volume has a device key, and so a state before first unlock.
    package let hasDeviceKey: Bool

    @usableFromInline let held: RWLock<HeldKeys>
    private let reads = ReadCount()
    private let snapshot: Atomic<UInt8>
    /// An unlock has taken its keys in and has not ended.
    private let opening = Lock(false)
    private let opened = Condition()

    private let generations: [UInt16]

    private init(
        _ bag: borrowing Keybag, metadataKey: borrowing SecretKey, hasDeviceKey: Bool, state: VolumeState,
        isPublicKeyProven: Bool
    ) throws(SodiumError) {
        volumeID = bag.volumeID
        suite = bag.suite
        publicKey = bag.publicKey
        generations = bag.generations
        metadata = try MetadataKeys(metadataKey: metadataKey, volumeID: bag.volumeID)
        self.hasDeviceKey = hasDeviceKey
        snapshot = Atomic(state.rawValue)
        held = RWLock(
            HeldKeys(
                state: state, volumeID: bag.volumeID, publicKey: bag.publicKey, generations: bag.generations,
                reads: reads, isPublicKeyProven: isPublicKeyProven))
    }

    /// A volume before its first unlock. Only class D and the metadata keys are present.
    ///
    /// - Parameter isPublicKeyProven: whether this machine has pinned the public key after an unlock verified it. The device
    ///   key does not prove it. If it is not proven, class B takes no files until the first unlock.
    package convenience init(
        _ bag: borrowing Keybag, device: consuming DeviceKeys, isPublicKeyProven: Bool
    ) throws(SodiumError) {
        try self.init(
            bag, metadataKey: device.key(.metadata), hasDeviceKey: true, state: .beforeFirstUnlock,
            isPublicKeyProven: isPublicKeyProven)
        var key = try ClassKeys.make(
            .none, from: device.bundle, generation: bag.generations[4], volumeID: bag.volumeID)
        held.withWriteLock { held in
            if let key = key.take() { held.install(none: key) }
        }
    }

    /// A volume that is unlocked from the start, as a volume without a device key is.
    package convenience init(_ bag: borrowing Keybag, keys: consuming VolumeKeys) throws(SodiumError) {
        try self.init(
            bag, metadataKey: keys.key(.metadata), hasDeviceKey: false, state: .unlocked, isPublicKeyProven: true)
        var prepared = try PreparedKeys.prepare(keys, generations: bag.generations)
        held.withWriteLock { held in
            if let keys = prepared.take() { held.install(keys) }
        }
    }

    /// The state a moment ago, read without a lock. Use it for replies and reports, never for permission.
    package var state: VolumeState {
        VolumeState(rawValue: snapshot.load(ordering: .acquiring)) ?? .locked
    }

    /// Runs `body` while the state cannot change. A key is tested and used inside it.
    ///
    /// `body` never does I/O on the backing store, and calls never nest.
    @inlinable package func withState<Result: ~Copyable, Failure: Error>(
        _ body: (borrowing HeldKeys) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try held.withReadLock(body)
    }

    /// `HeldKeys.wrap` in its own `withState`.
    package func wrap(
        _ fileKey: borrowing SecretKey, for protectionClass: ProtectionClass, associatedData: Span<UInt8>
    ) throws(KeyError) -> InlineArray<80, UInt8> {
        try held.withReadLock { (keys: borrowing HeldKeys) throws(KeyError) in
            try keys.wrap(fileKey, for: protectionClass, associatedData: associatedData)
        }
    }

    /// `HeldKeys.unwrap` in its own `withState`.
    package func unwrap(
        _ wrapped: Span<UInt8>, for protectionClass: ProtectionClass, generation: UInt16, associatedData: Span<UInt8>
    ) throws(KeyError) -> SecretKey {
        try held.withReadLock { (keys: borrowing HeldKeys) throws(KeyError) in
            try keys.unwrap(
                wrapped, for: protectionClass, generation: generation, associatedData: associatedData)
        }
    }

    /// `HeldKeys.beginRead` in its own `withState`.
    package func beginRead() throws(KeyError) {
        try held.withReadLock { (keys: borrowing HeldKeys) throws(KeyError) in try keys.beginRead() }
    }

    /// Ends a read that `beginRead()` counted, after its reply. It takes no state lock, so any code may call it.
    package func endRead() {
        reads.end()
    }

    /// The number of class A reads between their test and their reply.
    package var readsInFlight: Int { reads.current }

    // MARK: transitions

    /// Begins a lock: `unlocked` → `locking`. Returns when every holder of the shared side has left.
    ///
    /// - Returns: false if the volume was not unlocked. Nothing changes then.
    package func beginLocking() -> Bool {
        held.withWriteLock { keys in
            guard keys.state == .unlocked else { return false }
            move(&keys, to: .locking)
            return true
        }
    }

    /// Waits until no class A read is between its test and its reply.
    ///
    /// - Parameter deadline: CLOCK_MONOTONIC, nanoseconds.
    /// - Returns: false if the deadline passed first. The lock continues anyway.
    package func waitForReads(until deadline: UInt64) -> Bool {
        reads.waitForZero(until: deadline)
    }

    /// Ends a lock: wipes class key A and the private half of B, `locking` → `locked` or `sweeping`.
    ///
    /// - Parameter sweeping: whether the kernel may still hold pages of class A.
    /// - Parameter wipe: runs under the exclusive side of the state lock. It wipes the file keys of class A, and those of class
    ///   B files that are not open. It must not call the ring.
    /// - Returns: false if no lock was running. Nothing changes then.
    package func finishLocking(sweeping: Bool = false, wiping wipe: () -> Void) -> Bool {
        held.withWriteLock { keys in
            guard keys.state == .locking else { return false }
            wipe()
            keys.complete = .absent
            keys.unlessOpen = .absent
            move(&keys, to: sweeping ? .sweeping : .locked)
            return true
        }
    }

    /// Called when the kernel holds no page of class A any more: `sweeping` → `locked`.
    ///
    /// - Returns: false in any other state. Nothing changes then.
    package func finishSweeping() -> Bool {
        held.withWriteLock { keys in
            guard keys.state == .sweeping else { return false }
            move(&keys, to: .locked)
            return true
        }
    }

    /// Wipes keys that became class A after a lock had wiped class A, because the lock overtook a change of class.
    ///
    /// - Parameter wipe: runs under the exclusive side of the state lock, unless the volume is unlocked or a lock is running,
    ///   which will wipe them at its end. It must not call the ring.
    package func wipeIfLocked(_ wipe: () -> Void) {
        held.withWriteLock { keys in
            if keys.state.isLocked || keys.state == .beforeFirstUnlock { wipe() }
        }
    }

    /// Unlocks with the keys of a verified keybag.
    ///
    /// - Parameter prepare: applies late records. It runs with the keys in memory, before any file can be opened. Meanwhile
    ///   classes A and B allow only `replay`.
    /// - Throws: `KeyError.otherVolume` if D, M, C or the public key are not those of this mount; `.lockInProgress`.
    package func unlock(
        with keys: consuming VolumeKeys, prepare: () -> Void = {}
    ) throws(KeyError) -> UnlockOutcome {
        let privateKey = try keyMemory { () throws(SodiumError) in try keys.key(.classKey(.completeUnlessOpen)) }
        guard keys.volumeID == volumeID, haveSameBytes(X25519.publicKey(of: privateKey), publicKey) else {
            throw .otherVolume
        }
        let uuid = volumeID.bytes
        let header = try keyMemory { () throws(SodiumError) in
            try deriveKey(from: keys.key(.metadata), label: KeyLabel.header, context: uuid.span)
        }
        guard header.isEqual(to: metadata.header) else { throw .otherVolume }
        var offered: PreparedKeys?
        do throws(SodiumError) {
            offered = try PreparedKeys.prepare(keys, generations: generations)
        } catch {
            throw .memory(error)
        }
        let outcome = try held.withWriteLock { (held: inout HeldKeys) throws(KeyError) -> UnlockOutcome in
            guard let keys = offered.take(), held.agrees(with: keys) else { throw .otherVolume }
            // It belongs to the private key, as checked above.
            held.isPublicKeyProven = true
            switch held.state {
            case .unlocked: return .alreadyUnlocked
            case .locking: throw .lockInProgress
            case .beforeFirstUnlock, .locked, .sweeping:
                let outcome: UnlockOutcome = held.state == .beforeFirstUnlock ? .first : .again
                held.install(keys)
                return outcome
            }
        }
        guard outcome != .alreadyUnlocked else { return outcome }
        opening.withLock { $0 = true }
        prepare()
        held.withWriteLock { move(&$0, to: .unlocked) }
        opening.withLock { $0 = false }
        opened.broadcast()
        return outcome
    }

    /// Whether an unlock has its keys in memory and no file can be opened yet.
    package var isOpening: Bool { opening.withLock { $0 } }

    /// Waits until an unlock that has its keys in memory has ended. Do not call it from `prepare`.
    package func waitWhileOpening() {
        let _: Void? = opening.wait(on: opened) { $0 ? nil : () }
    }

    private func move(_ keys: inout HeldKeys, to state: VolumeState) {
        keys.state = state
        snapshot.store(state.rawValue, ordering: .releasing)
    }
}
