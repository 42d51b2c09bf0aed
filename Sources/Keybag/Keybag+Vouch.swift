// The device key vouches for class B's public key, so that other machines take over a rotation and refuse a forged one.

import SodiumKit
import VolumeFormat

extension Keybag {
    /// The public key that vouches for this keybag's public key. Nil if nothing does.
    package var voucher: InlineArray<32, UInt8>? {
        guard let vouch = layout.vouch else { return nil }
        let statement = KeybagVouch.statement(of: layout)
        let isValid = Ed25519.isValid(vouch.signature.span, over: statement.span, by: vouch.voucher)
        return isValid ? vouch.voucher : nil
    }

    /// Whether `known` vouches for the public key: by itself, or by a voucher that it has named as its successor.
    package func isVouched(by known: InlineArray<32, UInt8>) -> Bool {
        guard let vouch = layout.vouch, let voucher else { return false }
        if haveSameBytes(voucher, known) { return true }
        guard let start = vouch.former.firstIndex(where: { haveSameBytes($0.voucher, known) }) else { return false }
        let next = vouch.former.map(\.voucher).dropFirst(start + 1) + [voucher]
        return zip(vouch.former[start...], next).allSatisfy { former, next in
            let message = KeybagVouch.succession(volumeID, to: next)
            return Ed25519.isValid(former.signature.span, over: message.span, by: former.voucher)
        }
    }

    /// A short text for people who compare two keybags' keys. It depends on the volume, the public key and the voucher.
    package var fingerprint: String {
        let known = voucher ?? InlineArray(repeating: 0)
        let bytes = layout.volumeID.bytes.span.copiedBytes() + layout.publicKey.span.copiedBytes()
        let hash = hash256((Array("protectfs1/fingerprint\0".utf8) + bytes).span, known.span)
        let digits = (0..<16).map { index in
            (hash[index] < 16 ? "0" : "") + String(hash[index], radix: 16)
        }
        return stride(from: 0, to: 16, by: 2).map { digits[$0] + digits[$0 + 1] }.joined(separator: "-")
    }
}

extension KeybagEditor {
    /// Has the device key vouch for the public key of the layout, which must be complete but for slots.
    ///
    /// - Parameter old: the device key before, if it is another one and at hand. It names its successor.
    mutating func vouch(by device: Span<UInt8>, after old: borrowing SecretKey? = nil) throws(KeybagError) {
        do throws(SodiumError) {
            let seed = try Self.seed(device, layout.volumeID)
            let voucher = try Ed25519.publicKey(of: seed)
            let before = layout.vouch
            var former = before?.former ?? []
            if let before, !haveSameBytes(before.voucher, voucher) {
                former = []
                switch old {
                case .some(let old):
                    let oldSeed = try old.withBytes { bytes throws(SodiumError) in
                        try Self.seed(bytes, layout.volumeID)
                    }
                    if haveSameBytes(try Ed25519.publicKey(of: oldSeed), before.voucher) {
                        let message = KeybagVouch.succession(layout.volumeID, to: voucher)
                        let signature = try Ed25519.signature(over: message.span, by: oldSeed)
                        let last = KeybagVouch.Former(voucher: before.voucher, signature: signature)
                        former = (before.former + [last]).suffix(KeybagVouch.maximumFormer)
                    }
                case .none: break
                }
            }
            let signature = try Ed25519.signature(over: KeybagVouch.statement(of: layout).span, by: seed)
            layout.vouch = KeybagVouch(voucher: voucher, signature: signature, former: former)
        } catch {
            throw .memory(error)
        }
    }

    private static func seed(_ device: Span<UInt8>, _ volume: VolumeID) throws(SodiumError) -> SecretKey {
        let context = volume.bytes
        return try deriveKey(fromSecret: device, label: KeyLabel.vouch, context: context.span)
    }
}
