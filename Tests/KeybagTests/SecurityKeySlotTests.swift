// Slots of security keys: added, opened by what the key gave, and refused with anything else.

import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag

@Suite struct SecurityKeySlotTests {
    private let cheap = Argon2Parameters(passes: 1, memory: 8 << 20)

    private func field(_ credential: [UInt8]) -> SlotSecurityKey? {
        SlotSecurityKey(usesPIN: true, salt: randomInlineBytes(), credential: credential)
    }

    private func random() throws -> SecretBytes {
        let bytes: InlineArray<32, UInt8> = randomInlineBytes()
        return try SecretBytes(copying: bytes.span)
    }

    @Test func addedOpenedAndRemoved() throws {
        let device = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("one"), deviceKey: device, cost: cheap)
        let given = try random()
        let key = try #require(field([1, 2, 3]))
        let two = try new.bag.addingSecurityKey(key, secret: given, label: "ring", keys: new.keys)
        let slot = try #require(two.slots.last)
        #expect(slot.kind == .securityKey && slot.securityKey == key && !slot.isBound && slot.label.name == "ring")
        let credential = Credential.securityKey(try given.copy())
        #expect(try two.unlock(credential).slot == slot.id)
        #expect(try two.unlock(credential, deviceKey: device).slot == slot.id)
        let another = Credential.securityKey(try random())
        #expect(keybagError { () throws(KeybagError) in _ = try two.unlock(another) } == .wrongSecurityKey)
        let text = Credential.securityKey(try secret("not 32 bytes"))
        #expect(keybagError { () throws(KeybagError) in _ = try two.unlock(text) } == .wrongSecurityKey)
        // It survives other changes, and what it opens can make them.
        let three = try two.addingPortablePassphrase(try secret("two"), cost: cheap, keys: two.unlock(credential))
        #expect(try three.unlock(credential).slot == slot.id)
        let removed = try three.removingSlot(slot.id, keys: new.keys)
        #expect(keybagError { () throws(KeybagError) in _ = try removed.unlock(credential) } == .wrongSecurityKey)
    }

    @Test func lengths() throws {
        #expect(field([]) == nil && field([UInt8](repeating: 0, count: 1024)) == nil)
        let new = try Keybag.create(
            suite: .aes256GCM, passphrase: try secret("one"), deviceKey: try SecretKey.random(), cost: cheap)
        let longest = try #require(field([UInt8](repeating: 7, count: 1023)))
        let given = try random()
        let two = try new.bag.addingSecurityKey(longest, secret: given, keys: new.keys)
        let again = try Keybag(parsing: two.bytes)
        #expect(again.slots.last?.securityKey == longest)
        let short = try secret("short")
        #expect(
            keybagError { () throws(KeybagError) in
                _ = try new.bag.addingSecurityKey(longest, secret: short, keys: new.keys)
            } == .wrongSecurityKey)
    }

    /// A rotation has no secret of a security key, so it drops the slot and names it.
    @Test func rotationDropsIt() throws {
        let device = try SecretKey.random()
        let new = try Keybag.create(suite: .aes256GCM, passphrase: try secret("one"), deviceKey: device, cost: cheap)
        let key = try #require(field([1, 2, 3]))
        let given = try random()
        let two = try new.bag.addingSecurityKey(key, secret: given, keys: new.keys)
        let opened = try two.unlock(.passphrase(try secret("one")), deviceKey: device)
        #expect(two.slotsWithoutSecret(opened).map(\.kind) == [.securityKey])
        let rotated = try two.rotating(
            [.complete], passphrase: try secret("one"), deviceKey: consume device, keys: opened)
        #expect(!rotated.bag.slots.contains { $0.kind == .securityKey })
    }
}
