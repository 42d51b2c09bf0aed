// Parsers against hostile bytes: whatever parses serialises to the same bytes, and nothing traps.

import Testing
import VolumeFormat

@Suite struct ParserTests {
    static func header(_ protectionClass: ProtectionClass) -> [UInt8] {
        var header = FileHeader(
            protectionClass: protectionClass, suite: .aes256GCM, flags: [.holes, .explicit], keyGeneration: 3,
            fileID: ObjectID(InlineArray { UInt8($0) }))
        for index in 0..<72 { header.wrappedKey[index] = UInt8(200 - index) }
        for index in 0..<16 { header.mac[index] = UInt8(index + 7) }
        return bytes(128) { header.store(into: &$0) }
    }

    static func bytes(_ count: Int, _ fill: (inout MutableSpan<UInt8>) -> Void) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: count)
        var raw = result.mutableSpan
        fill(&raw)
        return result
    }

    @Test(arguments: ProtectionClass.allCases) func headerRoundTrip(protectionClass: ProtectionClass) throws {
        let stored = Self.header(protectionClass)
        let header = try FileHeader(parsing: stored.span)
        #expect(header.protectionClass == protectionClass && header.flags == [.holes, .explicit])
        #expect(header.keyGeneration == 3)
        #expect(Self.bytes(128) { header.store(into: &$0) } == stored)
    }

    @Test func headerErrors() {
        func error(_ offset: Int, _ value: UInt8) -> FormatError? {
            var stored = Self.header(.complete)
            stored[offset] = value
            do {
                _ = try FileHeader(parsing: stored.span)
                return nil
            } catch { return error }
        }
        #expect(error(0, 0x51) == .magic)
        #expect(error(3, 3) == .version(3))
        #expect(error(4, 7) == nil)
        #expect(error(4, 6) == .unknownClass)
        #expect(error(4, 0) == .unknownClass)
        #expect(error(5, 3) == .suite)
        #expect(error(6, 13) == .unsupported("block_log2"))
        #expect(error(7, 1) == .unsupported("compression"))
        #expect(error(8, 8) == .unsupported("flags"))
        #expect(error(12, 1) == .unsupported("freshness"))
        #expect(error(111, 1) == .inconsistent("wrapped file key"))
        let short = [UInt8](repeating: 0, count: 127)
        #expect(throws: FormatError.length) { _ = try FileHeader(parsing: short.span) }
    }

    /// Flags above the incompatible ones parse, and are written again.
    @Test func flagsOfLaterVersions() throws {
        var stored = Self.header(.complete)
        for (bits, isReadableOnly) in [(0x01, true), (0x08, true), (0x10, false), (0xF0, false)] as [(UInt8, Bool)] {
            stored[9] = bits
            let header = try FileHeader(parsing: stored.span)
            #expect(header.flags.areReadableOnly == isReadableOnly)
            #expect(Self.bytes(128) { header.store(into: &$0) } == stored)
        }
        let record = DirectoryRecord(directoryID: ObjectID(InlineArray { UInt8($0) }), defaultClass: nil)
        let text = record.target()
        var target = try #require(Base64URL.decode(text.span) as [UInt8]?)
        for (bits, isReadableOnly) in [(0x10, true), (0x20, true), (0x40, false), (0xC0, false)] as [(UInt8, Bool)] {
            target[5] = bits
            let parsed = try DirectoryRecord(parsing: target.span)
            #expect(parsed.flags.areReadableOnly == isReadableOnly)
            #expect(parsed.target() == Base64URL.encode(target.span))
        }
        for bit in 0..<4 as Range<UInt8> {
            target[5] = 1 << bit
            #expect(throws: FormatError.unsupported("flags")) { _ = try DirectoryRecord(parsing: target.span) }
        }
    }

    /// Every single-byte change of a valid object parses to the same bytes again or is refused.
    private func sweep(_ valid: [UInt8], _ again: ([UInt8]) throws -> [UInt8]) throws {
        #expect(try again(valid) == valid)
        var generator = SystemRandomNumberGenerator()
        for offset in valid.indices {
            for value in [0, 1, 0x7f, 0x80, 0xff, valid[offset] ^ 1, UInt8.random(in: 0...255, using: &generator)] {
                var changed = valid
                changed[offset] = value
                if let result = try? again(changed) { #expect(result == changed, "byte \(offset)") }
            }
            if let result = try? again(Array(valid[..<offset])) { #expect(result == Array(valid[..<offset])) }
        }
        if let result = try? again(valid + [0]) { #expect(result == valid + [0]) }
    }

    @Test func everyByteOfHeader() throws {
        for known in ProtectionClass.allCases {
            try sweep(Self.header(known)) { stored in
                let header = try FileHeader(parsing: stored.span)
                return Self.bytes(max(128, stored.count)) { header.store(into: &$0) }
            }
        }
    }

    @Test func everyByteOfRecord() throws {
        let record = DirectoryRecord(
            directoryID: ObjectID(InlineArray { UInt8(255 - $0) }), defaultClass: .completeUnlessOpen)
        let target = record.target()
        #expect(target.count == 59)
        try sweep(target) { text in
            guard let bytes = DirectoryRecord.decode(target: text.span) else {
                throw FormatError.encoding
            }
            return try DirectoryRecord(parsing: bytes.span).target()
        }
    }

    @Test func everyByteOfField() throws {
        let field = BlockField(payloadLength: 17, isLast: true, epoch: 0xdead_beef)
        try sweep(Self.bytes(8) { field.store(into: &$0, at: 0) }) { stored in
            let parsed = try BlockField(parsing: stored.span, capacity: 3932)
            return Self.bytes(max(8, stored.count)) { parsed.store(into: &$0, at: 0) }
        }
        let notFull = BlockField(payloadLength: 17, isLast: false, epoch: 0)
        let stored = Self.bytes(8) { notFull.store(into: &$0, at: 0) }
        #expect(throws: FormatError.inconsistent("payload length")) {
            _ = try BlockField(parsing: stored.span, capacity: 3932)
        }
    }

    static func keybag() -> KeybagLayout {
        var bag = KeybagLayout(
            suite: .xChaCha20Poly1305, hasNoDeviceKey: false, volumeID: VolumeID(InlineArray { UInt8($0 * 3) }),
            publicKey: InlineArray { UInt8($0) })
        bag.serial = 0x0102_0304_0506_0708
        bag.generations[3] = 9
        var passphrase = SlotLayout(
            kind: .passphrase, isBoundToDevice: true, slotID: 2, derivation: .argon2id13, passes: 3,
            memory: 64 << 20, salt: InlineArray { UInt8($0) }, commitment: InlineArray { UInt8($0 + 1) },
            nonce: InlineArray { UInt8($0 + 2) }, bundle: [UInt8](repeating: 6, count: 336))
        passphrase.label = SlotLabel(name: "a label", seconds: 1_700_000_000)
        passphrase.mustBeUnderstood = true
        bag.slots = [
            .known(
                SlotLayout(
                    kind: .device, isBoundToDevice: false, slotID: 1, derivation: .none,
                    salt: InlineArray { UInt8($0) },
                    commitment: InlineArray { UInt8($0 + 1) }, nonce: InlineArray { UInt8($0 + 2) },
                    bundle: [UInt8](repeating: 5, count: 96))),
            .known(passphrase),
            .newer(NewerSlot(bytes: [12, 0, 9, 0, 3, 0, 0, 0, 1, 2, 3, 4])),
        ]
        bag.readOnlyFeatures = 4
        bag.compatibleFeatures = 8
        bag.extensions[KeybagLayout.writerType] = Array("somebody 9".utf8)
        bag.extensions[7] = [9, 9]
        bag.unlockMAC = InlineArray { UInt8($0 + 90) }
        return bag
    }

    @Test func everyByteOfKeybag() throws {
        try sweep(Self.keybag().serialized()) { stored in
            try KeybagLayout(parsing: stored.span).serialized()
        }
        var twice = Self.keybag()
        twice.slots[1].known?.slotID = 1
        let bytes = twice.serialized()
        #expect(throws: FormatError.inconsistent("slot ID")) {
            _ = try KeybagLayout(parsing: bytes.span)
        }
    }

    @Test func everyByteOfState() throws {
        var state = StateFileLayout(
            volumeID: VolumeID(InlineArray { UInt8($0) }), serial: 77, publicKey: InlineArray { UInt8($0) },
            unlockMAC: InlineArray { UInt8($0) }, toleratesEverything: false)
        state.openEpochs = [1, 0xffff_fffe]
        state.openLocks = [.init(number: 3), .init(number: 4, done: 9)]
        state.store = StateFileLayout.Store(inode: 5, born: (6, 7), fileSystem: 8, path: Array("/a".utf8))
        (state.writer, state.hash) = ("a writer", InlineArray { UInt8($0 + 60) })
        (state.readOnlyCompatible, state.compatible, state.otherFlags) = (3, 5, 0x8000_0000)
        state.rest = [1, 2, 3]
        try sweep(state.serialized()) { try StateFileLayout(parsing: $0.span).serialized() }
        var unpinned = StateFileLayout(unpinned: VolumeID(InlineArray { UInt8($0) }), toleratesEverything: true)
        unpinned.openEpochs = [3]
        try sweep(unpinned.serialized()) { try StateFileLayout(parsing: $0.span).serialized() }
        state.openEpochs = Array(0..<5000)
        let bytes = state.serialized()
        let parsed = try StateFileLayout(parsing: bytes.span)
        #expect(parsed.openEpochs == Array(904..<5000) && parsed.toleratesEverything)
        #expect(parsed.highestEpoch == 0xffff_fffe)
    }

    /// What each TLV's value must be, and that those which are not known stay in their places.
    @Test func valuesOfState() throws {
        let volume = VolumeID(InlineArray { UInt8($0) })
        let empty = StateFileLayout(unpinned: volume, toleratesEverything: true).serialized()
        func parse(_ values: [(UInt16, [UInt8])], highest: UInt32 = 9) throws -> StateFileLayout {
            var list = TypeLengthValues()
            for (type, value) in values { list[type] = value }
            let parts = [Array(empty[..<128]), Self.bytes(list.length) { list.store(into: &$0, at: 0) }]
            var stored = parts.flatMap { $0 } + empty[128...]
            var bytes = stored.mutableSpan
            bytes.storeLittleEndian(UInt32(bytes.count), at: 12)
            bytes.storeLittleEndian(highest, at: 120)
            let state = try StateFileLayout(parsing: stored.span)
            #expect(state.serialized() == stored)
            return state
        }
        func numbers(_ numbers: [UInt32]) -> [UInt8] {
            numbers.flatMap { number in (0..<4).map { UInt8(truncatingIfNeeded: number >> (8 * $0)) } }
        }
        let lock = { (number: UInt8) in [number] + [UInt8](repeating: 0, count: 15) }
        let store = { (path: String) in [UInt8](repeating: 1, count: 28) + Array(path.utf8) }
        #expect(try parse([(2, numbers([1, 9]))]).openEpochs == [1, 9])
        #expect(try parse([(3, lock(1) + lock(2))]).openLocks.map(\.number) == [1, 2])
        #expect(try parse([(4, store("/"))]).store?.path == Array("/".utf8))
        let keys = [UInt8](repeating: 1, count: 48)
        #expect(try parse([(5, keys)]).keys?.generations[7] == 0x101)
        let unknown: [(UInt16, [UInt8])] = [(6, [1]), (1, Array("w".utf8)), (0x7fff, []), (2, numbers([4]))]
        var state = try parse(unknown)
        #expect(state.writer == "w" && state.openEpochs == [4])
        // What is not known stays in its place when the rest changes.
        state.writer = "another"
        state.openEpochs = []
        state.openLocks = [.init(number: 8)]
        let written = state.serialized()
        let again = try StateFileLayout(parsing: written.span)
        #expect(again.openEpochs == [] && again.highestEpoch == 9 && again.openLocks == [.init(number: 8)])
        let kept = Self.bytes(7) { $0.copyText("\u{6}\0\u{1}\0\0\0\u{1}", to: 0) }
        #expect(Array(written[128..<135]) == kept)
        let wrong: [(FormatError, [(UInt16, [UInt8])])] = [
            (.inconsistent("open epochs"), [(2, [])]), (.inconsistent("open epochs"), [(2, [1, 0, 0])]),
            (.inconsistent("open epochs"), [(2, [UInt8](repeating: 0, count: 4 * 4097))]),
            (.inconsistent("highest epoch"), [(2, numbers([10]))]),
            (.inconsistent("open locks"), [(3, [])]), (.inconsistent("open locks"), [(3, Array(lock(1).dropLast()))]),
            (.inconsistent("open locks"), [(3, (0..<65).flatMap { lock($0) })]),
            (.inconsistent("order of locks"), [(3, lock(2) + lock(2))]),
            (.unsupported("reserved bytes"), [(3, lock(1).dropLast() + [1])]),
            (.inconsistent("store"), [(4, store(""))]),
            (.inconsistent("store"), [(4, store("/" + String(repeating: "a", count: 4096)))]),
            (.inconsistent("path of the store"), [(4, store("a"))]),
            (.inconsistent("path of the store"), [(4, store("/\0"))]),
            (.inconsistent("keys"), [(5, keys + [0])]), (.inconsistent("keys"), [(5, [])]),
            (.unsupported("TLV"), [(0x8005, [])]),
        ]
        for (error, values) in wrong { #expect(throws: error) { _ = try parse(values) } }
        // A writer of another form is kept, and not shown.
        for value in [[], [10], [0xC3, 0xBC], [UInt8](repeating: 65, count: 65)] as [[UInt8]] {
            var state = try parse([(1, value)])
            #expect(state.writer == nil)
            let kept = state.serialized()
            #expect(Array(kept[134..<134 + value.count]) == value)
            state.writer = "another"
            let again = try StateFileLayout(parsing: state.serialized().span)
            #expect(again.writer == "another")
        }
    }

    @Test func epochsRise() {
        let day: Int64 = 86_400
        let now = Epoch.origin + 1000 * day
        #expect(Epoch.next(after: 0, at: now) == UInt32(1000 * day))
        #expect(Epoch.next(after: UInt32(1000 * day), at: now) == UInt32(1000 * day) + 1)
        // The clock went back, or is wrong.
        for wrong in [now - day, 0, -1, .min, .max, Epoch.origin + 1 << 32, Epoch.origin - 1] {
            #expect(Epoch.next(after: UInt32(1000 * day), at: wrong) == UInt32(1000 * day) + 1)
            #expect(Epoch.next(after: 0, at: wrong - (wrong == now - day ? 1000 * day : 0)) == 1)
        }
        #expect(Epoch.next(after: 5, at: Epoch.origin + Int64(UInt32.max)) == .max)
        #expect(Epoch.next(after: .max - 1, at: now) == .max)
        #expect(Epoch.next(after: .max, at: now) == nil)
        #expect(Epoch.time(of: UInt32(1000 * day)) == now && Epoch.time(of: .max) == Epoch.origin + Int64(UInt32.max))
    }

    @Test func bundleEntries() throws {
        #expect(BundleEntry.KeyType.all.map(\.number) == [1, 2, 3, 4, 7, 16, 17, 18])
        for number in UInt8.min...255 {
            let entry = BundleEntry(
                type: .init(number: number), flags: 255 - number, generation: 4, kept: 0x0102_0304)
            let stored = Self.bytes(40) { entry.store(into: &$0, at: 0) }
            #expect(try BundleEntry(parsing: stored.span) == entry)
        }
        let short = [UInt8](repeating: 0, count: 39)
        #expect(throws: FormatError.length) { _ = try BundleEntry(parsing: short.span) }
    }
}
