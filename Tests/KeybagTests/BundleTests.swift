// Bundles with keys that are missing, unknown, or of several generations.

import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag

@Suite struct BundleTests {
    /// The generations 5 of the classes, beside those of `VolumeKeys.random`.
    private static let later: [BundleEntry] = [1, 2, 3, 4, 7].map { number in
        BundleEntry(type: .init(number: number), flags: number == 4 ? BundleEntry.device : 0, generation: 5)
    }
    private static let laterGenerations: [UInt16] = [0, 5, 5, 5, 5, 0, 0, 5]
    private static let firstGenerations = [UInt16](repeating: 0, count: 8)

    /// A keybag of these keys with the passphrase "one".
    private func bag(
        _ keys: borrowing VolumeKeys, _ generations: [UInt16], device: borrowing SecretKey
    ) throws -> (bag: Keybag, code: [UInt8]) {
        let publicKey = X25519.publicKey(of: try keys.key(.classKey(.completeUnlessOpen)))
        var layout = KeybagLayout(
            suite: .aes256GCM, hasNoDeviceKey: false, volumeID: keys.volumeID, publicKey: publicKey)
        for index in 0..<8 { layout.generations[index] = generations[index] }
        var editor = KeybagEditor(layout)
        try device.withBytes { bytes in
            try editor.addDevice(bytes, label: nil, keys: keys)
            try editor.addPassphrase(
                try secret("one"), bound: true, device: bytes, cost: cheap, label: nil, keys: keys)
        }
        let code = try editor.addRecovery(label: nil, keys: keys)
        return (try Keybag(signing: editor.layout, keys), code.withBytes { $0.copiedBytes() })
    }

    private func volume() -> VolumeID { VolumeID(random: randomInlineBytes()) }

    @Test func everyKeyIsNeeded() throws {
        let device = try SecretKey.random()
        let keys = try VolumeKeys.random(volumeID: volume())
        let made = try bag(keys, Self.firstGenerations, device: device)
        let recovery = Credential.recoveryCode(try SecretBytes(copying: made.code.span))
        let secret = try SecretBytes(copying: made.code.span).withBytes { try RecoverySecret.parse($0) }
        /// The error of a keybag whose recovery slot holds `bundle`.
        func error(_ bundle: borrowing KeyBundle) throws -> KeybagError? {
            var layout = made.bag.layout
            var slot = try #require(layout.slots[2].known)
            try secret.withBytes { material in
                try SlotCipher.seal(
                    &slot, bundle: bundle, volumeID: keys.volumeID, material: material, device: Span<UInt8>())
            }
            layout.slots[2] = .known(slot)
            let changed = try Keybag(signing: layout, keys)
            return keybagError { () throws(KeybagError) in _ = try changed.unlock(recovery) }
        }
        #expect(try error(keys.bundle) == nil)
        for type in BundleEntry.KeyType.all {
            #expect(try error(keys.bundle.filtered { $0.type != type }) == .malformedBundle(slot: made.bag.slots[2].id))
        }
        let twice = try KeyBundle.random(keys.bundle.entries + [keys.bundle.entries[0]])
        #expect(try error(twice) == .malformedBundle(slot: made.bag.slots[2].id))
    }

    @Test func aDeviceSlotNeedsDAndM() throws {
        let device = try SecretKey.random()
        let keys = try VolumeKeys.random(volumeID: volume())
        let made = try bag(keys, Self.firstGenerations, device: device)
        for type in BundleEntry.KeyType.device {
            var layout = made.bag.layout
            var slot = try #require(layout.slots[0].known)
            let bundle = try keys.bundle.filtered { $0.isInDeviceSlot && $0.type != type }
            try device.withBytes { material in
                try SlotCipher.seal(
                    &slot, bundle: bundle, volumeID: keys.volumeID, material: material, device: Span<UInt8>())
            }
            layout.slots[0] = .known(slot)
            let changed = try Keybag(signing: layout, keys)
            #expect(
                keybagError { () throws(KeybagError) in _ = try changed.open(deviceKey: device) }
                    == .malformedBundle(slot: slot.slotID))
        }
    }

    @Test func unknownEntriesAreKept() throws {
        let device = try SecretKey.random()
        let unknown = [
            BundleEntry(type: .init(number: 40), flags: BundleEntry.device | 0x80, generation: 3, kept: 0xdead_beef),
            BundleEntry(type: .init(number: 200), flags: 0x7e, generation: 65535, kept: 1),
            BundleEntry(type: .classKey(.complete), generation: 9),
        ]
        let keys = try VolumeKeys.random(volumeID: volume()).adding(unknown)
        let made = try bag(keys, Self.firstGenerations, device: device)
        #expect(try made.bag.open(deviceKey: device).bundle.entries.map(\.type.number) == [4, 16, 40])
        func check(_ opened: borrowing VolumeKeys) {
            let same = opened.isSame(as: keys)
            #expect(same)
        }
        let first = try made.bag.unlock(try passphrase("one"), deviceKey: device)
        check(first)
        let changed = try made.bag.changingPassphrase(
            ofSlot: made.bag.slots[1].id, to: try secret("two"), deviceKey: device, cost: cheap, keys: first)
        let second = try changed.unlock(try passphrase("two"), deviceKey: device)
        check(second)
        let code = Credential.recoveryCode(try SecretBytes(copying: made.code.span))
        let recovered = try changed.unlock(code)
        check(recovered)
        let other = try SecretKey.random()
        let moved = try changed.recovering(
            passphrase: try secret("three"), newDeviceKey: other, cost: cheap, keys: recovered)
        let last = try moved.unlock(try passphrase("three"), deviceKey: other)
        check(last)
        let inDevice = try moved.open(deviceKey: other)
        #expect(inDevice.bundle.entries == keys.bundle.entries.filter(\.isInDeviceSlot))
        let same = inDevice.bundle.agrees(with: keys.bundle)
        #expect(same)
        let renewed = try moved.renewingRecoveryCode(keys: last)
        let newest = try renewed.bag.unlock(.recoveryCode(try renewed.recoveryCode.copy()))
        check(newest)
    }

    /// Another program can add a key to the slots whose secrets it has, and to no others.
    @Test func aKeyThatOnlyTheDeviceSlotHas() throws {
        let device = try SecretKey.random()
        let keys = try VolumeKeys.random(volumeID: volume())
        let more = try keys.adding([BundleEntry(type: .init(number: 40), flags: BundleEntry.device, generation: 0)])
        let made = try bag(keys, Self.firstGenerations, device: device)
        var editor = KeybagEditor(made.bag.layout)
        editor.layout.slots.removeAll { $0.known?.kind == .device }
        try device.withBytes { try editor.addDevice($0, label: nil, keys: more) }
        let bag = try Keybag(signing: editor.layout, keys)
        _ = try bag.unlock(try passphrase("one"), deviceKey: device)
    }

    private func wrap(_ ring: KeyRing, _ key: borrowing SecretKey, _ known: ProtectionClass) throws -> [UInt8] {
        let data = associatedData
        let wrapped = try ring.wrap(key, for: known, associatedData: data.span)
        return wrapped.span.copiedBytes()
    }

    private func opens(
        _ ring: KeyRing, _ wrapped: [UInt8], _ known: ProtectionClass, _ generation: UInt16,
        _ key: borrowing SecretKey
    ) throws -> Bool {
        let data = associatedData
        let opened = try ring.unwrap(
            wrapped.span, for: known, generation: generation, associatedData: data.span)
        return opened.isEqual(to: key)
    }

    /// Files of both generations open, whichever of them the keybag names.
    @Test func twoGenerationsOfEveryClass() throws {
        let device = try SecretKey.random()
        let first = try VolumeKeys.random(volumeID: volume())
        let both = try first.adding(Self.later)
        let renewed = try both.changed(generations: Self.laterGenerations) { _ in }
        let old = try bag(both, Self.firstGenerations, device: device).bag
        let new = try bag(renewed, Self.laterGenerations, device: device).bag
        let rings = try [old, new].map { bag in
            let ring = try KeyRing(bag, device: try bag.open(deviceKey: device), isPublicKeyProven: true)
            return ring
        }
        let fileKey = try SecretKey.random()
        // Class D of both generations is there before the first unlock.
        let early = try rings.map { try wrap($0, fileKey, .none) }
        for ring in rings {
            #expect(try opens(ring, early[0], .none, 0, fileKey))
            #expect(try opens(ring, early[1], .none, 5, fileKey))
        }
        #expect(try rings[0].unlock(with: old.unlock(try passphrase("one"), deviceKey: device)) == .first)
        #expect(try rings[1].unlock(with: new.unlock(try passphrase("one"), deviceKey: device)) == .first)
        let uses = rings.map { ring in ring.withState { $0.generation(of: .complete) } }
        #expect(uses == [0, 5])
        for known in ProtectionClass.allCases {
            let wrapped = try rings.map { try wrap($0, fileKey, known) }
            for ring in rings {
                #expect(try opens(ring, wrapped[0], known, 0, fileKey), "\(known)")
                #expect(try opens(ring, wrapped[1], known, 5, fileKey), "\(known)")
                #expect(throws: KeyError.authenticationFailed) {
                    _ = try opens(ring, wrapped[0], known, 5, fileKey)
                }
                #expect(throws: KeyError.unknownGeneration(6)) {
                    _ = try opens(ring, wrapped[0], known, 6, fileKey)
                }
            }
        }
        try lateFilesOfBothGenerations(rings)
        // After a lock neither generation of A and B is left.
        for ring in rings {
            #expect(ring.beginLocking() && ring.finishLocking {})
            for generation in [0, 5] as [UInt16] {
                #expect(throws: KeyError.locked(.complete)) {
                    _ = try opens(ring, [UInt8](repeating: 0, count: 80), .complete, generation, fileKey)
                }
            }
        }
    }

    private func lateFilesOfBothGenerations(_ rings: [KeyRing]) throws {
        let text = Array("a page".utf8)
        let record = LateRecordHeader(
            dataLength: text.count, index: 0, fileID: ObjectID(InlineArray(repeating: 1)), offset: 0, seconds: 0,
            nanoseconds: 0)
        for (place, ring) in rings.enumerated() {
            let made = try ring.withState { (held: borrowing HeldKeys) throws(KeyError) in
                try held.makeLateKey(number: 9)
            }
            #expect(made.header.generation == [0, 5][place] && made.header.publicKeyGeneration == [0, 5][place])
            var sealed = [UInt8](repeating: 0, count: text.count + LateRecordHeader.sealOverhead)
            do {
                var output = sealed.mutableSpan
                try made.seal(text.span, record, into: &output)
            }
            for reader in rings {
                var plain = [UInt8](repeating: 0, count: text.count)
                var output = plain.mutableSpan
                let isOpen = try reader.withState { (held: borrowing HeldKeys) throws(KeyError) -> Bool in
                    let key = try held.openLateKey(made.header)
                    return try held.openLate(sealed.span, record, of: key.header, into: &output)
                }
                #expect(isOpen && plain == text)
                var header = made.header
                header.generation = 6
                #expect(throws: KeyError.unknownGeneration(6)) {
                    _ = try reader.withState { (held: borrowing HeldKeys) throws(KeyError) in
                        try held.openLateKey(header)
                    }
                }
            }
        }
    }

    /// The header is genuine, and its records are for a key that the bundle does not have.
    @Test func aLateFileOfAnUnknownGeneration() throws {
        let device = try SecretKey.random()
        let first = try VolumeKeys.random(volumeID: volume())
        var generations = Self.firstGenerations
        generations[2] = 5
        let more = try first.adding([Self.later[1]], generations: generations)
        let new = try bag(more, generations, device: device).bag
        let old = try bag(first, Self.firstGenerations, device: device).bag
        let writer = try KeyRing(new, keys: new.unlock(try passphrase("one"), deviceKey: device))
        let reader = try KeyRing(old, keys: old.unlock(try passphrase("one"), deviceKey: device))
        let made = try writer.withState { (held: borrowing HeldKeys) throws(KeyError) in
            try held.makeLateKey(number: 9)
        }
        #expect(throws: KeyError.newer) {
            _ = try reader.withState { (held: borrowing HeldKeys) throws(KeyError) in
                try held.openLateKey(made.header)
            }
        }
    }
}
