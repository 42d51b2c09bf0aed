// Tests the record of an item: it reads back as written, and other bytes are refused.

import Testing
import VolumeFormat

@testable import SecretStore

@Suite struct SecretRecordTests {
    static let item: SecretItem = {
        var item = SecretItem(
            .internet,
            [
                "account": .text("ünï@example.org"), "port": .number(-443), "generic": .bytes([0, 255, 7]),
                "invisible": .flag(true), "comment": .text(""),
            ], class: .none)
        item.created = .max
        item.modified = -5
        return item
    }()

    @Test func comesBackAsItWas() throws {
        let bytes = try #require(SecretRecord.encode(Self.item))
        #expect(SecretRecord.decode(bytes) == Self.item)
    }

    @Test func everyPrefixIsRefused() throws {
        let bytes = try #require(SecretRecord.encode(Self.item))
        for length in 0..<bytes.count { #expect(SecretRecord.decode(Array(bytes[..<length])) == nil, "\(length)") }
        #expect(SecretRecord.decode(bytes + [0]) == nil)
    }

    @Test func changedBytesAreRefusedOrMeanWhatTheySay() throws {
        let bytes = try #require(SecretRecord.encode(Self.item))
        for index in bytes.indices {
            for value: UInt8 in [0, 1, 4, 127, 128, 255] where value != bytes[index] {
                var changed = bytes
                changed[index] = value
                guard let item = SecretRecord.decode(changed) else { continue }
                #expect(item != Self.item, "byte \(index) set to \(value)")
            }
        }
    }

    @Test func whatDoesNotFitIsRefused() {
        var item = Self.item
        item.attributes["comment"] = .text(String(repeating: "x", count: SecretRecord.largest))
        #expect(SecretRecord.encode(item) == nil)
        item.attributes = Dictionary(uniqueKeysWithValues: (0..<256).map { ("\($0)", .flag(false)) })
        #expect(SecretRecord.encode(item) == nil)
    }

    @Test func theNameIsOfTheIdentityAlone() {
        var other = Self.item
        other.attributes["comment"] = .text("else")
        #expect(other.name == Self.item.name)
        other.attributes["port"] = .text("-443")
        #expect(other.name != Self.item.name)
        var shifted = Self.item
        shifted.attributes["account"] = .text("ünï@example.orga")
        #expect(shifted.name != Self.item.name)
        let missing = SecretItem(.generic, ["account": .text("a")], class: .none)
        let empty = SecretItem(.generic, ["account": .text("a"), "service": .text("")], class: .none)
        #expect(missing.name != empty.name)
    }

    @Test func onlyASynchronizableItemHasAnotherName() {
        var item = SecretItem(.generic, ["account": .text("me")], class: .none)
        // Of version 1: Tests/Fixtures/secrets-1.json.
        #expect(item.name == "22a32c68e622391c15051ac9e135340d81e9413a7e665fe1332d617531e64175")
        let plain = item.name
        item.attributes[KeychainAttribute.synchronizable] = .flag(false)
        #expect(item.name == plain)
        item.attributes[KeychainAttribute.synchronizable] = .flag(true)
        #expect(item.name != plain)
        // An attribute of a desktop program that has the same name says nothing.
        var desktop = SecretItem(.desktop, [DesktopAttribute.identifier: .text("1")], class: .none)
        let name = desktop.name
        desktop.attributes[KeychainAttribute.synchronizable] = .flag(true)
        #expect(desktop.name == name)
    }

    @Test func aReferenceIsTheNameUntilTheItemHasItsOwn() {
        var item = SecretItem(.generic, ["account": .text("me")], class: .none)
        #expect(item.reference == nil)
        item.file = item.name
        #expect(item.reference?.count == 48)
        let first = KeychainAttribute.newReference(to: item)
        #expect(first != KeychainAttribute.newReference(to: item))
        item.attributes[KeychainAttribute.reference] = first
        #expect(SecretAttribute.bytes(item.reference ?? []) == first)
        item.file = "no digits"
        item.attributes = [:]
        #expect(item.reference == nil)
    }

    @Test func absentIsMissingOrEmpty() {
        var query = SecretQuery(.internet)
        query.absent = ["port", "path"]
        #expect(query.matches(SecretItem(.internet, [:], class: .none)))
        #expect(query.matches(SecretItem(.internet, ["port": .number(0), "path": .text("")], class: .none)))
        #expect(!query.matches(SecretItem(.internet, ["port": .number(1)], class: .none)))
        #expect(!query.matches(SecretItem(.internet, ["path": .flag(false)], class: .none)))
    }

    @Test func aQueryWantsAllOfIts() {
        var query = SecretQuery(nil, ["account": .text("ÜNÏ@example.org")])
        #expect(!query.matches(Self.item))
        query.ignoresCase = true
        #expect(query.matches(Self.item))
        query.attributes["server"] = .text("x")
        #expect(!query.matches(Self.item))
        #expect(!SecretQuery(.generic).matches(Self.item))
        // As the identity does: by bytes.
        let decomposed = SecretItem(.generic, ["account": .text("e\u{301}")], class: .none)
        #expect(SecretQuery(nil, ["account": .text("e\u{301}")]).matches(decomposed))
        #expect(!SecretQuery(nil, ["account": .text("\u{e9}")]).matches(decomposed))
    }
}
