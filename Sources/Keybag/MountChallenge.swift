// What a command asks the daemon of a mount, to learn whether it has the keys of the volume.

import SodiumKit
import VolumeFormat

/// 32 random bytes, made for one question and never used again.
package struct MountChallenge: Sendable, Equatable {
    private static let byteCount = 32

    private let bytes: [UInt8]

    /// A fresh challenge.
    package init() {
        let random: InlineArray<32, UInt8> = randomInlineBytes()
        bytes = random.indices.map { random[$0] }
    }

    /// Reads a challenge from hexadecimal digits. Nil unless they are those of 32 bytes.
    package init?(_ text: String) {
        guard let bytes = Hexadecimal.decode(text.utf8), bytes.count == Self.byteCount else { return nil }
        self.bytes = bytes
    }

    /// The challenge as hexadecimal digits.
    package var text: String { Hexadecimal.text(bytes) }

    /// The answer of the daemon whose mount has these device numbers. They are part of it, so that the daemon of another mount of
    /// the volume cannot be asked for it.
    package func answer(_ keys: MetadataKeys, major: UInt32, minor: UInt32) -> [UInt8] {
        var message: InlineArray<40, UInt8> = .init(repeating: 0)
        var span = message.mutableSpan
        for index in bytes.indices { span[index] = bytes[index] }
        span.storeLittleEndian(major, at: 32)
        span.storeLittleEndian(minor, at: 36)
        let answer = mac256(keys.mountProof, message.span)
        return answer.indices.map { answer[$0] }
    }

    /// Whether `answer` is that of a daemon which has `keys`, and whose mount has these device numbers.
    package func isAnswered(by answer: [UInt8], _ keys: MetadataKeys, major: UInt32, minor: UInt32) -> Bool {
        let expected = self.answer(keys, major: major, minor: minor)
        return answer.count == expected.count && constantTimeEqual(answer.span, expected.span)
    }
}
