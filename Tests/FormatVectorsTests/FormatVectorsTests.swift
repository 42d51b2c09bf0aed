// Every vector of the specification against this implementation; the second reader checks the same ones.

import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag

@Suite struct FormatVectorsTests {
    let vectors: Vectors

    init() throws {
        vectors = try Vectors()
    }

    private func check(_ kind: String, _ read: (Vector) throws -> String?) {
        let entries = vectors.entries(kind)
        #expect(!entries.isEmpty, "no vectors of \(kind)")
        for vector in entries {
            let outcome = (try? read(vector)) ?? "refuse"
            #expect(outcome == vector.expectedText, "\(kind): \(vector.comment)")
        }
    }

    private func key(_ bytes: [UInt8]) throws -> SecretKey { try SecretKey(copying: bytes.span) }

    @Test func text() {
        check("base64url") { Base64URL.decode($0.ascii("text").span).map { hex($0) } }
        check("recovery_code") { vector in
            let text = vector.ascii("text")
            let secret = try RecoverySecret.parse(text.span)
            return secret.withBytes { hex($0.copiedBytes()) }
        }
        check("recipient_key") { vector in
            let text = vector.ascii("text")
            if vector.text("form") == "public" {
                return hex(try RecipientKey.publicKey(from: text.span).span.copiedBytes())
            }
            return try RecipientKey.privateKey(from: text.span).withBytes { hex($0.copiedBytes()) }
        }
    }

    @Test func primitives() {
        check("kdf") { vector in
            #expect(vector.text("label") == "header")
            let context = vector.hex("context")
            let derived = try deriveKey(
                from: key(vector.hex("key")), label: KeyLabel.header, context: context.span)
            return derived.withBytes { hex($0.copiedBytes()) }
        }
        check("argon2id") { vector in
            let (password, salt) = (vector.hex("password"), vector.hex("salt"))
            let output = try PasswordHash.argon2id(
                password.span, salt: salt.span,
                parameters: Argon2Parameters(
                    passes: UInt32(vector.number("passes")), memory: vector.number("memory")))
            return output.withBytes { hex($0.copiedBytes()) }
        }
        check("tpm2_pin") { vector in
            let salt: InlineArray<16, UInt8> = vector.hex("salt").span.inline(at: 0)
            let pin = try TPM2PIN(try SecretBytes(copying: vector.hex("pin").span), salt: salt)
            let material = try pin.material(from: key(vector.hex("sealed")))
            return hex(try pin.authValue().withBytes { $0.copiedBytes() } + material.withBytes { $0.copiedBytes() })
        }
        check("hpke") { vector in
            let (sealed, info, aad) = (vector.hex("sealed"), vector.hex("info"), vector.hex("aad"))
            let opened = try HPKE.openKey(
                sealed.span, privateKey: key(vector.hex("private")), info: info.span,
                associatedData: aad.span)
            switch consume opened {
            case .some(let key): return text(key)
            case .none: return nil
            }
        }
    }

    @Test func sizes() throws {
        for vector in vectors.entries("size") {
            let suite = try #require(CipherSuite(rawValue: UInt8(vector.number("suite"))))
            let geometry = PageGeometry(suite: suite)
            let length = geometry.backingLength(size: vector.number("size")) ?? 0
            #expect(length == vector.expectedNumber, "\(vector.comment)")
        }
        for vector in vectors.entries("length") {
            let suite = try #require(CipherSuite(rawValue: UInt8(vector.number("suite"))))
            let geometry = PageGeometry(suite: suite)
            #expect(geometry.size(backingLength: vector.number("length")) == vector.expectedNumber, "\(vector.comment)")
        }
    }

    @Test func keybags() throws {
        let entries = vectors.entries("keybag")
        #expect(entries.count > 30)
        for vector in entries {
            do {
                let bag = try Keybag(parsing: vector.hex("keybag"))
                let outcome = try open(bag, vector)
                #expect(vector.isAccepted, "\(vector.comment)")
                #expect(outcome == vector.expected.texts, "\(vector.comment)")
                #expect(bag.isReadOnly == vector.isTrue("read_only"), "\(vector.comment)")
            } catch KeybagError.newer(_, let writer) {
                #expect(vector.isNewer, "\(vector.comment)")
                #expect(writer ?? "" == vector.text("writer"), "\(vector.comment)")
            } catch is KeybagError {
                #expect(vector.isRefused, "\(vector.comment)")
            }
        }
    }

    @Test func slots() throws {
        let entries = vectors.entries("slots")
        #expect(entries.count >= 10)
        for vector in entries {
            let slots = try Keybag(parsing: vector.hex("keybag")).slots
            let expected = vector.list("expect")
            #expect(slots.count == expected.count)
            for (slot, fields) in zip(slots, expected) {
                #expect(UInt64(slot.id) == fields.number("id") && UInt64(slot.kindNumber) == fields.number("kind"))
                #expect(slot.label.name ?? "" == fields.text("label"), "\(vector.comment)")
                #expect(slot.label.seconds ?? 0 == fields.number("date"), "\(vector.comment)")
                #expect((slot.kind == nil) == fields.isTrue("newer"), "\(vector.comment)")
            }
        }
    }

    /// The keys by the number of their type, of the keybag's generations.
    private func open(_ bag: Keybag, _ vector: Vector) throws -> [String: String] {
        let device = vector.has("device_key") ? vector.hex("device_key") : nil
        var credential: Credential?
        if vector.has("passphrase") {
            credential = .passphrase(try SecretBytes(copying: vector.hex("passphrase").span))
        } else if vector.has("recovery_code") {
            credential = .recoveryCode(try SecretBytes(copying: vector.ascii("recovery_code").span))
        } else if vector.has("recipient_key") {
            credential = .recipientKey(try SecretBytes(copying: vector.ascii("recipient_key").span))
        } else if vector.has("tpm2") {
            credential = .tpm2(try SecretBytes(copying: vector.hex("tpm2").span))
        } else if vector.has("security_key") {
            credential = .securityKey(try SecretBytes(copying: vector.hex("security_key").span))
        }
        guard let credential = credential.take() else {
            return text(try bag.open(deviceKey: try key(device ?? [])).bundle, bag.generations)
        }
        let keys: VolumeKeys
        if let device {
            keys = try bag.unlock(credential, deviceKey: try key(device))
        } else {
            keys = try bag.unlock(credential)
        }
        return text(keys.bundle, bag.generations)
    }

    private func text(_ key: borrowing SecretKey) -> String { key.withBytes { hex($0.copiedBytes()) } }

    private func text(_ bundle: borrowing KeyBundle, _ generations: [UInt16]) -> [String: String] {
        bundle.withBytes { bytes in
            var keys: [String: String] = [:]
            for (index, entry) in bundle.entries.enumerated() {
                guard BundleEntry.KeyType.all.contains(entry.type),
                    entry.generation == entry.type.generation(in: generations)
                else { continue }
                let start = index * BundleEntry.length
                let key = bytes.extracting(start + BundleEntry.keyOffset..<start + BundleEntry.length)
                keys["\(entry.type.number)"] = hex(key.copiedBytes())
            }
            return keys
        }
    }
}
