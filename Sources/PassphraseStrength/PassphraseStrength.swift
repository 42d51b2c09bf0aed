// How many guesses a passphrase takes, by zxcvbn: its word lists are inside of the library, and it writes no file.

internal import CZxcvbn
package import SodiumKit

/// An estimate of what somebody needs who guesses at a passphrase, trying what people choose first.
package struct PassphraseStrength: Sendable, Comparable {
    /// The logarithm of the number of guesses, to base 2.
    package let bits: Double

    /// The least for a passphrase that a copy of the volume is enough to guess at: a guess costs about a second of a
    /// processor, so this is some 17,000 years of one.
    package static let minimum = PassphraseStrength(bits: 40)
    /// What needs no warning: a thousand times the minimum.
    package static let comfortable = PassphraseStrength(bits: 50)

    /// Takes a number of bits.
    package init(bits: Double) { self.bits = bits }

    /// Orders by the number of guesses.
    package static func < (one: PassphraseStrength, other: PassphraseStrength) -> Bool { one.bits < other.bits }

    /// The library looks at no more than these bytes; what is longer is no weaker.
    private static let longest = 100

    /// Estimates `passphrase`.
    ///
    /// The library gets a copy in locked memory, which is wiped. It has a copy of its own on the heap for the length of the
    /// call, and overwrites that; what it leaves on the stack is wiped here.
    package init(of passphrase: borrowing SecretBytes) throws(SodiumError) {
        var text = try SecretBytes(byteCount: Self.longest + 1)
        passphrase.withBytes { source in
            text.withMutableBytes { target in
                Self.fold(source, into: &target)
            }
        }
        let bits = text.withBytes { bytes in
            unsafe bytes.withUnsafeBytes { memory -> Double in
                // The last byte is zero, so the text ends inside of the memory.
                guard let start = memory.baseAddress else { return 0 }
                return unsafe ZxcvbnMatch(start.assumingMemoryBound(to: CChar.self), nil, nil)
            }
        }
        wipeStackBelow()
        self.bits = bits
    }

    /// One byte for each character of UTF-8, or the library would take one for as many guesses as it has bytes. Bytes of
    /// zero become others, as the library's text ends with one.
    private static func fold(_ source: Span<UInt8>, into target: inout MutableSpan<UInt8>) {
        var count = 0
        for index in 0..<source.count where count < longest {
            let byte = source[index]
            let isContinuation = byte & 0xC0 == 0x80
            // A character's last byte stands for it.
            if isContinuation, count > 0 { count -= 1 }
            target[count] = byte == 0 ? 1 : byte
            count += 1
        }
    }
}
