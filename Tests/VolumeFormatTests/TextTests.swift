// Text forms: base64url, recovery codes, UUIDs and reserved names; and the bytes that bind ciphertexts to their place.

import Testing
import VolumeFormat

@Suite struct TextTests {
    @Test func base64() {
        #expect(String(decoding: Base64URL.encode(Array("f".utf8).span), as: UTF8.self) == "Zg")
        #expect(String(decoding: Base64URL.encode(Array("foobar".utf8).span), as: UTF8.self) == "Zm9vYmFy")
        for length in 0..<70 {
            let bytes = (0..<length).map { UInt8(($0 * 37 + length * 101) & 255) }
            let text = Base64URL.encode(bytes.span)
            #expect(text.count == Base64URL.encodedLength(of: length))
            #expect(Base64URL.decode(text.span) == bytes)
        }
        for wrong in ["A", "AB", "AAB", "Zg==", "Z+", "Z/", "Zg\n", "Zh", "AAAAA"] {
            let text = Array(wrong.utf8)
            if let bytes = Base64URL.decode(text.span) {
                #expect(Base64URL.encode(bytes.span) == text)
                Issue.record("\(wrong) decodes")
            }
        }
    }

    @Test func hexadecimalDigits() {
        let bytes = (0...255).map { UInt8($0) }
        let text = Hexadecimal.text(bytes)
        #expect(text.hasPrefix("000102030405060708090a0b") && text.hasSuffix("fdfeff"))
        #expect(Hexadecimal.decode(text.utf8) == bytes)
        #expect(Hexadecimal.decode(text.uppercased().utf8) == bytes)
        #expect(Hexadecimal.decode("".utf8) == [])
        for wrong in ["0", "0g", "-1", "00 ", "é0"] { #expect(Hexadecimal.decode(wrong.utf8) == nil) }
    }

    @Test func stagingNames() {
        let name = StagingName.of(user: 1000)
        #expect(name == ".protectfs-staging-1000")
        let right = Array(name.utf8)
        #expect(StagingName.matches(right.span) as Bool)
        for wrong in [".protectfs-staging-", ".protectfs-staging-1a", "x.protectfs-staging-1", ".protectfs-staging 1"] {
            let bytes = Array(wrong.utf8)
            #expect(!StagingName.matches(bytes.span) as Bool)
        }
    }

    @Test func stateNames() {
        for state in VolumeState.allCases { #expect(VolumeState(attributeValue: "\(state.attributeValue)") == state) }
        #expect(VolumeState(attributeValue: "absent") == nil)
        #expect(VolumeState(attributeValue: "Unlocked") == nil)
    }

    @Test func recoveryCode() {
        let secret = (0..<16).map { UInt8($0 * 17) }
        let text = ParserTests.bytes(35) {
            RecoveryCode.encode(secret.span, checksum: 0x2a_bcde, into: &$0)
        }
        let code = String(decoding: text, as: UTF8.self)
        #expect(code.split(separator: "-").map(\.count) == [5, 5, 5, 5, 5, 5])
        let typed = [code, code.lowercased(), code.replacing("-", with: " ") + "\n", code.replacing("0", with: "o")]
        for text in typed {
            let bytes = Array(text.utf8)
            var checksum: UInt32?
            let result = ParserTests.bytes(16) { checksum = RecoveryCode.decode(bytes.span, into: &$0) }
            #expect((result == secret && checksum == 0x2a_bcde) as Bool)
        }
        for wrong in [String(code.dropLast()), code + "0", code.replacing("-", with: "_"), "U" + code.dropFirst()] {
            let bytes = Array(wrong.utf8)
            var checksum: UInt32? = 0
            _ = ParserTests.bytes(16) { checksum = RecoveryCode.decode(bytes.span, into: &$0) }
            #expect((checksum == nil) as Bool)
        }
        let hash: [UInt8] = [0xff, 0x00, 0x07]
        #expect(RecoveryCode.checksum(hash: hash.span) == 0x3f_c001)
    }

    @Test func volumeID() throws {
        let text = "00112233-4455-6677-8899-aabbccddeeff"
        #expect(try #require(VolumeID(text: text)).description == text)
        for wrong in ["", text + "0", text.uppercased(), String(text.dropLast()), text.replacing("-", with: "0")] {
            #expect(VolumeID(text: wrong) == nil)
        }
        let random = VolumeID(random: InlineArray(repeating: 0xff))
        #expect(random.description == "ffffffff-ffff-4fff-bfff-ffffffffffff")
    }

    @Test func kindsOfBackingNames() {
        let long = "~" + String(repeating: "A", count: 43)
        let expected: [(String, ReservedName.Kind)] = [
            (".protectfs.keybag", .keybag), (".protectfs.keybag.old", .keybag), (".protectfs.dir", .record),
            (".protectfs.tmp.x", .temporary), (".protectfs.aside.x", .aside), (".protectfs.y", .unknownReserved),
            (".protectfs.lost+found", .lostAndFound), (".protectfs.lost+found2", .unknownReserved),
            (long, .long), (long + ".n", .companion), (long + ".x", .foreign), ("~A", .foreign),
            (String(repeating: "A", count: 23), .encoded), ("AAAA", .foreign),
        ]
        for (name, kind) in expected {
            let bytes = Array(name.utf8)
            #expect(ReservedName.kind(of: bytes.span) == kind, "\(name)")
        }
    }

    @Test func bindings() throws {
        let volume = VolumeID(InlineArray { UInt8(0xa0 + $0) })
        let header = try FileHeader(parsing: ParserTests.header(.complete).span)
        let stored = ParserTests.header(.complete)
        let wrap = AssociatedData.wrap(volume: volume, header: header)
        let wrapBytes = (wrap.span).copiedBytes()
        #expect(Array(wrapBytes[..<16]) == Array("protectfs1/wrap\0".utf8))
        #expect(wrapBytes[16] == 0xa0)
        #expect(Array(wrapBytes[32..<40]) == Array(stored[..<8]))
        #expect(Array(wrapBytes[40..<48]) == [0, 0, 3, 0, 0, 0, 0, 0])
        #expect(Array(wrapBytes[48..<64]) == Array(stored[16..<32]))
        let field: [UInt8] = [1, 2, 3, 4, 5, 6, 7, 8]
        var length = 0
        let first = ParserTests.bytes(68) {
            AssociatedData.beginBlocks(header: header, into: &$0)
            length = AssociatedData.completeBlock(index: 0, field: field.span.littleEndian(at: 0), into: &$0)
        }
        #expect(length == 68 && Array(first[36...]) == Array(stored[..<32]))
        #expect(Array(first[..<16]) == Array(stored[16..<32]) && Array(first[24..<32]) == field)
        #expect(Array(first[32..<36]) == [1, 12, 0, 0])
        let later = ParserTests.bytes(68) {
            AssociatedData.beginBlocks(header: header, into: &$0)
            length = AssociatedData.completeBlock(index: 0x0102, field: field.span.littleEndian(at: 0), into: &$0)
        }
        #expect(length == 36 && Array(later[16..<24]) == [2, 1, 0, 0, 0, 0, 0, 0])
        let extent = AssociatedData.extentContext(suite: .xChaCha20Poly1305, epoch: 0x0403_0201, extent: 5)
        #expect((extent.span).copiedBytes() == [2, 1, 2, 3, 4, 5, 0, 0, 0, 0, 0, 0, 0])
        let slot = try #require(ParserTests.keybag().slots[1].known)
        let bound = slot.associatedData(volume: volume)
        let whole = ParserTests.bytes(slot.length) { slot.store(into: &$0, at: 0) }
        #expect(Array(bound[32...]) == Array(whole[..<(104 + slot.extensions.length)]))
    }
}
