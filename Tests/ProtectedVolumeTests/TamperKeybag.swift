// The tamper matrix of the keybag and of the state file: the credentials that still open it, and this machine's pins.

import TestSupport
import Keybag
import HostSystem
import SodiumKit
import Testing
import VolumeFormat

@testable import Keybag
@testable import ProtectedVolume
@testable import VolumeCheck

/// A keybag with every kind of slot, its state file, older ones, and another volume's.
final class TamperKeybag: Sendable {
    private struct Version {
        let bag: Keybag
        let state: [UInt8]
    }

    private let device: Lock<SecretKey>
    private let recovery: Lock<SecretBytes>
    private let recipient: Lock<SecretBytes>
    private let securityKey: Lock<SecretBytes>
    private let now: Version
    private let older: Version
    private let foreign: Version
    private static let passphrase = "p"
    private static let fromTPM = "thirty-two bytes that a TPM gave"
    private static let cost = Argon2Parameters(passes: 1, memory: 8 << 20)

    init() throws {
        let own = try Self.make(label: "a label")
        // Every label differs, because the dates of making do or do not.
        let other = try Self.make(label: "another")
        (now, older, foreign) = (own.now, own.older, other.now)
        device = Lock(try own.device.copy())
        recovery = Lock(try own.recovery.copy())
        recipient = Lock(try own.recipient.copy())
        securityKey = Lock(try own.securityKey.copy())
    }

    private struct Made: ~Copyable {
        let now: Version
        let older: Version
        let device: SecretKey
        let recovery: SecretBytes
        let recipient: SecretBytes
        let securityKey: SecretBytes
    }

    /// What a TPM has sealed. Only a TPM reads it, so random bytes do.
    private static func sealed() throws -> SlotTPM2 {
        let (name, blob): (InlineArray<34, UInt8>, InlineArray<160, UInt8>) = (randomInlineBytes(), randomInlineBytes())
        return try #require(
            SlotTPM2(
                hasPIN: true, pcrs: UInt32.random(in: 0..<1 << 24), pinSalt: randomInlineBytes(),
                parentName: name.span.copiedBytes(), publicPart: Array(blob.span.copiedBytes()[..<80]),
                privatePart: blob.span.copiedBytes()))
    }

    private static func secret(_ text: String) throws(SodiumError) -> SecretBytes {
        let bytes = Array(text.utf8)
        return try SecretBytes(copying: bytes.span)
    }

    private static func make(label: String) throws -> Made {
        let device = try SecretKey.random()
        func create() throws -> NewKeybag {
            try Keybag.create(
                suite: .aes256GCM, passphrase: secret(passphrase), deviceKey: device, cost: cost, label: label)
        }
        var new = try create()
        // All slots of one second: else an exchange of two labels changes something on a slow machine only.
        while Set(new.bag.layout.slots.map(\.known?.label.seconds)).count > 1 { new = try create() }
        var layout = new.bag.layout
        layout.extensions[0x7000] = [1, 2, 3]
        layout.serial += 1
        let older = try Keybag(signing: layout, new.keys)
        layout.extensions[0x7000] = [1, 2, 4]
        layout.compatibleFeatures = 1
        layout.serial += 1
        let changed = try Keybag(signing: layout, new.keys)
        let bound = try changed.addingPassphrase(
            secret("q"), boundTo: device, cost: cost, label: label + ", b", keys: new.keys)
        let portable = try bound.addingPortablePassphrase(secret("r"), cost: cost, label: label + ", c", keys: new.keys)
        let pair = try RecipientKey.Pair()
        let publicKey = try RecipientKey.publicKey(from: Array(pair.publicText.utf8).span)
        let forRecipient = try portable.addingRecipient(publicKey, label: label + ", d", keys: new.keys)
        let held: SecretKey? = try device.copy()
        let forTPM = try forRecipient.addingTPM2(
            try sealed(), material: secret(fromTPM), deviceKey: held, label: label + ", e", keys: new.keys)
        let securityKey = try SecretBytes(copying: (randomInlineBytes() as InlineArray<32, UInt8>).span)
        let field = try #require(
            SlotSecurityKey(
                usesPIN: true, salt: (randomInlineBytes() as InlineArray<32, UInt8>),
                credential: (randomInlineBytes() as InlineArray<48, UInt8>).span.copiedBytes()))
        let bag = try forTPM.addingSecurityKey(
            field, secret: securityKey, label: label + ", f", keys: new.keys)
        var state = StateFile(pinning: bag, toleratesEverything: false)
        state.layout.openEpochs = [7]
        state.layout.openLocks = [.init(number: 5, done: 2)]
        return Made(
            now: Version(bag: bag, state: state.serialized()),
            older: Version(
                bag: older, state: StateFile(pinning: older, toleratesEverything: true).serialized()),
            device: try device.copy(), recovery: try new.recoveryCode.copy(), recipient: try pair.privateText.copy(),
            securityKey: securityKey)
    }

    /// Whether anything opens this keybag: the device key with a passphrase or a TPM, or the recovery code, the
    /// recipient's key or what the security key gave, without the device key.
    private func opens(_ bytes: [UInt8], state: [UInt8]?) -> Bool {
        guard let bag = try? Keybag(parsing: bytes) else { return false }
        let pinned = state.flatMap { try? StateFile(parsing: $0) }
        if state != nil, pinned == nil { return false }
        guard (try? StateFile.check(bag, against: pinned)) != nil else { return false }
        let withDevice = device.withLock { device -> Bool in
            guard (try? bag.open(deviceKey: device)) != nil else { return false }
            guard let text = try? Self.secret(Self.passphrase) else { return false }
            if (try? bag.unlock(.passphrase(text), deviceKey: device)) != nil { return true }
            guard let sealed = try? Self.secret(Self.fromTPM) else { return false }
            return (try? bag.unlock(.tpm2(sealed), deviceKey: device)) != nil
        }
        if withDevice { return true }
        let withCode = recovery.withLock { code -> Bool in
            guard let text = try? code.copy() else { return false }
            return (try? bag.unlock(.recoveryCode(text))) != nil
        }
        if withCode { return true }
        let withRecipient = recipient.withLock { key -> Bool in
            guard let text = try? key.copy() else { return false }
            return (try? bag.unlock(.recipientKey(text))) != nil
        }
        if withRecipient { return true }
        return securityKey.withLock { key -> Bool in
            guard let secret = try? key.copy() else { return false }
            return (try? bag.unlock(.securityKey(secret))) != nil
        }
    }

    func rows(isComplete: Bool) throws -> [TamperRow] {
        #expect(opens(now.bag.bytes, state: now.state))
        var rows: [TamperRow] = []
        let fields = now.bag.layout.fields
        let whole = LayoutField("*all of it*", 0..<now.bag.bytes.count)
        let names = [
            "device key", "passphrase", "recovery code", "passphrase, bound", "passphrase, portable", "recipient",
            "TPM", "security key",
        ]
        for field in fields + [whole] {
            var kind = "Keybag"
            var name = field.name
            let parts = field.name.split(separator: " ")
            if parts.count > 2, parts[0] == "slot", let number = Int(parts[1].dropLast()) {
                kind = "Keybag, slot: \(names[number - 1])"
                name = parts.dropFirst(2).joined(separator: " ")
            }
            rows.append(row(kind, name, field, isComplete) { opens($0, state: now.state) ? nil : "refused" })
        }
        rows.append(
            row("Keybag, where the state file is missing", whole.name, whole, isComplete) { [self] bytes in
                guard opens(bytes, state: nil) else { return "refused" }
                return bytes == older.bag.bytes ? "**R**" : nil
            })
        return rows.sorted { one, two in
            // The header's fields and the keybag as a whole first, then the slots in their order.
            let order = ["Keybag"] + names.map { "Keybag, slot: \($0)" }
            return order.firstIndex(of: one.kind) ?? 99 < order.firstIndex(of: two.kind) ?? 99
        }
            + (try stateRows(isComplete))
    }

    /// One row; `judge` gives nil for what must not be.
    private func row(
        _ kind: String, _ name: String, _ field: LayoutField, _ isComplete: Bool, _ judge: ([UInt8]) -> String?
    ) -> TamperRow {
        let bytes = now.bag.bytes
        func partner() -> (Range<Int>, [UInt8])? {
            let fields = now.bag.layout.fields
            let parts = field.name.split(separator: " ")
            guard parts.count > 2, parts[0] == "slot" else { return nil }
            let other = parts[1] == "2:" ? "4:" : "2:"
            let name = (["slot", other] + parts.dropFirst(2).map(String.init)).joined(separator: " ")
            return fields.first { $0.name == name }.map { ($0.range, Array(bytes[$0.range])) }
        }
        func counterpart(_ bag: Keybag) -> [UInt8]? {
            if field.range.count == bytes.count { return bag.bytes }
            return bag.layout.fields.first { $0.name == field.name }.map { Array(bag.bytes[$0.range]) }
        }
        return Self.row(
            kind, name, field, bytes, isComplete, partner: partner(), foreign: counterpart(foreign.bag),
            older: counterpart(older.bag), judge)
    }

    private func stateRows(_ isComplete: Bool) throws -> [TamperRow] {
        let layout = try StateFile(parsing: now.state).layout
        let volume = now.bag.volumeID
        func judge(_ bytes: [UInt8]) -> String? {
            guard let state = try? StateFile(parsing: bytes), state.layout.volumeID == volume,
                (try? StateFile.check(now.bag, against: state)) != nil
            else { return "refused" }
            return "**L**"
        }
        let bytes = now.state
        let whole = LayoutField("*all of it*", 0..<bytes.count)
        return try (layout.fields + [whole]).map { field in
            func counterpart(_ state: [UInt8]) throws -> [UInt8]? {
                if field == whole { return state }
                return try StateFile(parsing: state).layout.fields.first { $0.name == field.name }.map {
                    Array(state[$0.range])
                }
            }
            return Self.row(
                "State file", field.name, field, bytes, isComplete, partner: nil,
                foreign: try counterpart(foreign.state),
                older: try counterpart(older.state)
            ) { changed in
                judge(Self.withHash(changed, field))
            }
        }
    }

    /// A changed state file with a hash that fits, because everyone can make one; but not where the hash was changed.
    static func withHash(_ changed: [UInt8], _ field: LayoutField) -> [UInt8] {
        field.name == "hash" || changed.count < StateFileLayout.leastLength ? changed : StateFile.withHash(changed)
    }

    /// One row of any bytes; `judge` gives nil for what must not be.
    static func row(
        _ kind: String, _ name: String, _ field: LayoutField, _ bytes: [UInt8], _ isComplete: Bool,
        partner: (Range<Int>, [UInt8])?, foreign: [UInt8]?, older: [UInt8]?, _ judge: ([UInt8]) -> String?
    ) -> TamperRow {
        let range = field.range
        func with(_ middle: [UInt8]) -> [UInt8] {
            Array(bytes[..<range.lowerBound]) + middle + bytes[range.upperBound...]
        }
        func variants(_ tampering: Tampering) -> [[UInt8]] {
            switch tampering {
            case .flip:
                guard range.count < bytes.count else { return [] }
                let chosen = isComplete ? Array(range) : [range.lowerBound, range.upperBound - 1]
                return chosen.map { index in
                    var new = bytes
                    new[index] ^= 1 << UInt8(index % 8)
                    return new
                }
            case .zero: return [with(Array(repeating: 0, count: range.count))]
            case .cut: return [Array(bytes[..<range.lowerBound]), with([])]
            case .extend:
                return [0, 0x55].map { Array(bytes[..<range.upperBound]) + [$0] + bytes[range.upperBound...] }
            case .swap:
                guard let (there, other) = partner else { return [] }
                // The later range first, so that the earlier one's place stays.
                let (first, second) = there.lowerBound < range.lowerBound ? (there, range) : (range, there)
                let (early, late) =
                    there.lowerBound < range.lowerBound ? (Array(bytes[range]), other) : (other, Array(bytes[range]))
                let swapped =
                    Array(bytes[..<first.lowerBound]) + early + bytes[first.upperBound..<second.lowerBound] + late
                    + bytes[second.upperBound...]
                return [swapped, with(other)]
            case .foreign: return foreign.map { [with($0)] } ?? []
            case .older: return older.map { [with($0)] } ?? []
            }
        }
        var row = TamperRow(kind: kind, field: name, length: range.count, cells: [])
        for tampering in Tampering.allCases {
            var cell = TamperCell()
            for changed in variants(tampering) where changed != bytes {
                cell.changes += 1
                guard let text = judge(changed) else {
                    cell.failures.append("\(kind), \(name), \(tampering): accepted")
                    cell.texts.insert("?")
                    continue
                }
                cell.texts.insert(text)
            }
            row.cells.append(cell)
        }
        return row
    }
}
