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

/// When an unlock may be done.
package enum UnlockCondition: Sendable, Equatable {
    /// In any case.
    case always
    /// Only if the last lock has this number (`LockReport.number`), and no other came after it.
    case ifLock(Int64)
    /// Only if the volume is unlocked already: its keybag has other keys now, which are taken in.
    case ifUnlocked
}

/// The class keys of a mounted volume, and its state.
///
/// Class 7 passes through the same states on its own: a lock leaves it open, and closes it when its time has run out.
///
/// The states are `before first unlock` → `unlocked` → `locking` → `locked` → `unlocked`, or `locking` → `sweeping` → `locked`.
/// The shared side of the state lock covers testing and using a key, but never I/O on the backing store. Transitions take its
/// exclusive side. The lock is not recursive, so code inside `withState` must not call the ring, except `endRead()`.
@usableFromInline package final class KeyRing: Sendable {
    /// The volume's identifier.
    package let volumeID: VolumeID
    /// The volume's cipher for blocks.
    package let suite: CipherSuite
    /// The keys for headers, names, links and attributes. They are present in every state.
    package let metadata: MetadataKeys
    /// Whether the volume has a device key, and so a state before first unlock.
    package let hasDeviceKey: Bool

    @usableFromInline let held: RWLock<HeldKeys>
    private let reads = ReadCount()
    private let inactiveReads = ReadCount()
    private let snapshot: Atomic<UInt8>
    private let inactiveSnapshot: Atomic<UInt8>
    /// An unlock has taken its keys in and has not ended.
    private let opening = Lock(false)
    private let opened = Condition()
    /// Operations that store wrapped file keys.
    let storing = Lock(StoringOperations())

    private init(
        _ bag: borrowing Keybag, metadataKey: borrowing SecretKey, hasDeviceKey: Bool, state: VolumeState,
        isPublicKeyProven: Bool
    ) throws(SodiumError) {
        volumeID = bag.volumeID
        suite = bag.suite
        metadata = try MetadataKeys(metadataKey: metadataKey, volumeID: bag.volumeID)
        self.hasDeviceKey = hasDeviceKey
        snapshot = Atomic(state.rawValue)
        inactiveSnapshot = Atomic(state.rawValue)
        held = RWLock(
            HeldKeys(
                states: VolumeStates(state), volumeID: bag.volumeID, publicKey: bag.publicKey,
                generations: bag.generations, reads: reads, inactiveReads: inactiveReads,
                isPublicKeyProven: isPublicKeyProven))
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
        var prepared = try PreparedKeys.prepare(keys)
        held.withWriteLock { held in
            if let keys = prepared.take() { held.install(keys) }
        }
    }

    /// The state a moment ago, read without a lock. Use it for replies and reports, never for permission.
    package var state: VolumeState {
        VolumeState(rawValue: snapshot.load(ordering: .acquiring)) ?? .locked
    }

    /// The state that `protectionClass` obeyed a moment ago, like `state`.
    package func state(of protectionClass: ProtectionClass) -> VolumeState {
        guard protectionClass == .completeWhenUserInactive else { return state }
        return VolumeState(rawValue: inactiveSnapshot.load(ordering: .acquiring)) ?? .locked
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
    package func beginRead(of protectionClass: ProtectionClass = .complete) throws(KeyError) {
        try held.withReadLock { (keys: borrowing HeldKeys) throws(KeyError) in
            try keys.beginRead(of: protectionClass)
        }
    }

    /// Ends a read that `beginRead(of:)` counted, after its reply. It takes no state lock, so any code may call it.
    package func endRead(of protectionClass: ProtectionClass = .complete) {
        reads(of: protectionClass).end()
    }

    private func reads(of protectionClass: ProtectionClass) -> ReadCount {
        protectionClass == .completeWhenUserInactive ? inactiveReads : reads
    }

    /// The number of class A reads between their test and their reply.
    package var readsInFlight: Int { reads.current }

    // MARK: transitions

    /// Begins a lock: `unlocked` → `locking`. Returns when every holder of the shared side has left.
    ///
    /// - Parameter protectionClass: A for a lock of the volume; 7 when its time after a lock has run out.
    /// - Returns: false if the class was not open, or, for class 7, if the volume is not locked. Nothing changes then.
    package func beginLocking(_ protectionClass: ProtectionClass = .complete) -> Bool {
        held.withWriteLock { keys in
            guard keys.state(of: protectionClass) == .unlocked else { return false }
            if protectionClass == .completeWhenUserInactive, !keys.state.isLocked || keys.isOpening { return false }
            move(&keys, protectionClass, to: .locking)
            return true
        }
    }

    /// Waits until no read of the class is between its test and its reply.
    ///
    /// - Parameter deadline: CLOCK_MONOTONIC, nanoseconds.
    /// - Returns: false if the deadline passed first. The lock continues anyway.
    package func waitForReads(of protectionClass: ProtectionClass = .complete, until deadline: UInt64) -> Bool {
        reads(of: protectionClass).waitForZero(until: deadline)
    }

    /// Ends a lock: wipes class key A and the private half of B, or class key 7; `locking` → `locked` or `sweeping`.
    ///
    /// - Parameter sweeping: whether the kernel may still hold pages of the class.
    /// - Parameter wipe: runs under the exclusive side of the state lock. It wipes the file keys of the class, and at a lock of
    ///   the volume those of class B files that are not open. It must not call the ring.
    /// - Returns: false if no lock was running. Nothing changes then.
    package func finishLocking(
        _ protectionClass: ProtectionClass = .complete, sweeping: Bool = false, wiping wipe: () -> Void
    ) -> Bool {
        held.withWriteLock { keys in
            guard keys.state(of: protectionClass) == .locking else { return false }
            wipe()
            if protectionClass == .completeWhenUserInactive {
                keys.whenInactive = .absent
            } else {
                keys.complete = .absent
                keys.unlessOpen = .absent
            }
            move(&keys, protectionClass, to: sweeping ? .sweeping : .locked)
            return true
        }
    }

    /// Called when the kernel holds no page of the class any more: `sweeping` → `locked`.
    ///
    /// - Returns: false in any other state. Nothing changes then.
    package func finishSweeping(_ protectionClass: ProtectionClass = .complete) -> Bool {
        held.withWriteLock { keys in
            guard keys.state(of: protectionClass) == .sweeping else { return false }
            move(&keys, protectionClass, to: .locked)
            return true
        }
    }

    /// Wipes keys of a file that got `protectionClass` after a lock had wiped those of the class, because the lock overtook the
    /// change of class.
    ///
    /// - Parameter wipe: runs under the exclusive side of the state lock, unless the class is open or a lock is running,
    ///   which will wipe them at its end. It must not call the ring.
    package func wipeIfLocked(_ protectionClass: ProtectionClass = .complete, _ wipe: () -> Void) {
        held.withWriteLock { keys in
            let state = keys.state(of: protectionClass)
            if state.isLocked || state == .beforeFirstUnlock { wipe() }
        }
    }

    /// Unlocks with the keys of a verified keybag. If it has other generations than the keybag before, new wraps use them from now
    /// on, also if the volume is unlocked already.
    ///
    /// - Parameter onlyIfUnlocked: whether the keys are taken in only if the volume is unlocked.
    /// - Parameter prepare: applies late records. It runs with the keys in memory, before any file can be opened. Meanwhile
    ///   classes A and B allow only `replay`.
    /// - Throws: `KeyError.otherVolume` if they are not the keys of this mount, or lack one that new wraps use now;
    ///   `.lockInProgress`; `.locked` if the volume is not unlocked, but should be.
    package func unlock(
        with keys: consuming VolumeKeys, onlyIfUnlocked: Bool = false, prepare: () -> Void = {}
    ) throws(KeyError) -> UnlockOutcome {
        guard keys.volumeID == volumeID else { throw .otherVolume }
        let uuid = volumeID.bytes
        let header = try keyMemory { () throws(SodiumError) in
            try deriveKey(from: keys.key(.metadata), label: KeyLabel.header, context: uuid.span)
        }
        guard header.isEqual(to: metadata.header) else { throw .otherVolume }
        var offered: PreparedKeys?
        do throws(SodiumError) {
            offered = try PreparedKeys.prepare(keys)
        } catch {
            throw .memory(error)
        }
        let outcome = try held.withWriteLock { (held: inout HeldKeys) throws(KeyError) -> UnlockOutcome in
            guard let keys = offered.take(), try held.agrees(with: keys) else { throw .otherVolume }
            // It belongs to the private key, as checked above.
            held.isPublicKeyProven = true
            switch held.state {
            case .unlocked:
                held.install(keys)
                return .alreadyUnlocked
            case .locking: throw .lockInProgress
            case .beforeFirstUnlock, .locked, .sweeping:
                if onlyIfUnlocked { throw .locked(.complete) }
                guard held.states.inactive != .locking else { throw .lockInProgress }
                let outcome: UnlockOutcome = held.state == .beforeFirstUnlock ? .first : .again
                held.install(keys)
                held.isOpening = true
                return outcome
            }
        }
        // After the keys are in: what began before may store wraps by former keys.
        storing.withLock { $0.turn += 1 }
        guard outcome != .alreadyUnlocked else { return outcome }
        opening.withLock { $0 = true }
        prepare()
        held.withWriteLock { held in
            move(&held, .complete, to: .unlocked)
            move(&held, .completeWhenUserInactive, to: .unlocked)
            held.isOpening = false
        }
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

    private func move(_ keys: inout HeldKeys, _ protectionClass: ProtectionClass, to state: VolumeState) {
        if protectionClass == .completeWhenUserInactive {
            keys.states.inactive = state
            inactiveSnapshot.store(state.rawValue, ordering: .releasing)
        } else {
            keys.states.volume = state
            snapshot.store(state.rawValue, ordering: .releasing)
        }
    }
}
