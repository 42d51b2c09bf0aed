// A file's key and the extent keys derived from it. They are in memory only while the class allows.

import BackingStore
import KeyFiles
package import Keybag
import HostSystem
import SodiumKit
import Synchronization
import VolumeFormat

/// The key of one file with a small cache of expanded extent keys.
///
/// Keys are used only under the shared side of the state lock. They are wiped only under its exclusive side, or when nothing
/// uses them any more. So a wipe never happens during a use.
final class FileKeys: Sendable {
    struct Slot {
        let epoch: UInt32
        let extent: UInt64
        let cipher: BlockCipher
    }

    struct Box: ~Copyable {
        var key: SecretKey?
        var slots = ShortList<Slot>()
        var next = 0
        var wasWiped = false

        mutating func forgetCiphers() {
            KeptCiphers.release(slots.count)
            slots = ShortList()
            next = 0
        }

        var isPresent: Bool {
            switch key {
            case .some: true
            case .none: false
            }
        }
    }

    /// The limit of extent keys kept. Deriving one takes less than a microsecond.
    private static let slotCount = 8
    private let box: InPlaceLock<Box>
    private let suite: CipherSuite

    init(_ key: consuming SecretKey?, suite: CipherSuite) {
        self.suite = suite
        box = InPlaceLock(Box(key: key))
    }

    deinit {
        box.withLock { $0.forgetCiphers() }
    }

    /// Whether the file key is in memory.
    var isPresent: Bool {
        box.withLock { $0.isPresent }
    }

    /// Stores the file key, if there is none yet.
    func install(_ key: consuming SecretKey, replacing: Bool = false) {
        var offered: SecretKey? = consume key
        box.withLock { box in
            if !replacing, box.isPresent { return }
            box.key = offered.take()
            box.forgetCiphers()
        }
    }

    /// Removes the file key and every extent key.
    func takeKey() -> SecretKey? {
        box.withLock { box in
            box.forgetCiphers()
            return box.key.take()
        }
    }

    /// Runs `body` with the file key; nil if it is not in memory.
    func withKey<Result>(_ body: (borrowing SecretKey) throws(VolumeError) -> Result) throws(VolumeError) -> Result? {
        try box.withLock { (box: inout Box) throws(VolumeError) -> Result? in
            switch box.key {
            case .some(let key): return try body(key)
            case .none: return nil
            }
        }
    }

    /// The extent key of `epoch` and `extent`; nil if the file key is not in memory.
    func cipher(epoch: UInt32, extent: UInt64) throws(VolumeError) -> BlockCipher? {
        try box.withLock { (box: inout Box) throws(VolumeError) -> BlockCipher? in
            for slot in box.slots where slot.epoch == epoch && slot.extent == extent { return slot.cipher }
            guard let cipher = try derive(&box, epoch, extent) else { return nil }
            if box.slots.count == Self.slotCount {
                box.slots.remove(at: box.next)
                KeptCiphers.release(1)
                box.next = (box.next + 1) % Self.slotCount
            }
            // A key that is not kept exists as long as its user holds it.
            if KeptCiphers.reserve() { box.slots.append(Slot(epoch: epoch, extent: extent, cipher: cipher)) }
            return cipher
        }
    }

    private func derive(_ box: inout Box, _ epoch: UInt32, _ extent: UInt64) throws(VolumeError) -> BlockCipher? {
        do throws(VolumeError) {
            return try Self.derive(box.key, suite, epoch, extent)
        } catch {
            // Locked memory is at its limit. Tries again after this file has freed its extent keys.
            guard !box.slots.isEmpty else { throw error }
            box.forgetCiphers()
            return try Self.derive(box.key, suite, epoch, extent)
        }
    }

    private static func derive(
        _ key: borrowing SecretKey?, _ suite: CipherSuite, _ epoch: UInt32, _ extent: UInt64
    ) throws(VolumeError) -> BlockCipher? {
        switch key {
        case .some(let key):
            let context = AssociatedData.extentContext(suite: suite, epoch: epoch, extent: extent)
            do throws(SodiumError) {
                let derived = try deriveKey(from: key, label: KeyLabel.extent, context: context.span)
                return try BlockCipher(
                    suite: suite, key: derived)
            } catch { throw VolumeError(error) }
        case .none: return nil
        }
    }

    /// Wipes the file key and every extent key.
    func wipe() {
        box.withLock { box in
            box.slots.forEach { $0.cipher.wipe() }
            box.forgetCiphers()
            box.key = nil
            box.wasWiped = true
        }
    }

    /// Whether the keys were wiped. The file ID is checked before they are unwrapped again.
    var wasWiped: Bool { box.withLock { $0.wasWiped } }

    /// The file ID was checked.
    func forgetWipe() { box.withLock { $0.wasWiped = false } }
}

/// Counts the expanded keys that are kept for later. The limit of locked memory bounds their number over all open files.
private enum KeptCiphers {
    /// An eighth of the limit, at 1 KiB for each key.
    private static let most = Int(clamping: lockableMemory() / 8 / 1024)
    private static let count = Atomic<Int>(0)

    /// Counts one more. False if no more may be kept.
    static func reserve() -> Bool {
        let isFree = count.add(1, ordering: .relaxed).newValue <= most
        if !isFree { release(1) }
        return isFree
    }

    static func release(_ number: Int) { count.subtract(number, ordering: .relaxed) }
}

extension VolumeError {
    /// No locked memory left.
    init(_ error: SodiumError) {
        self = .store(.ENOMEM)
    }

    /// A file key cannot be unwrapped.
    package init(_ error: KeyError) {
        switch error {
        case .locked(let protectionClass): self = .locked(protectionClass)
        // The header's MAC is right, so a newer version has made this key.
        case .unknownGeneration: self = .newer(.header)
        case .newer: self = .newer(.late)
        default: self = .damaged(.wrap)
        }
    }
}
