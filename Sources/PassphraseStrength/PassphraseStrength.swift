// Estimates how many guesses a passphrase takes, with zxcvbn. Its word lists are in the library, and it writes no file.

internal import CZxcvbn
package import SodiumKit

/// An estimate of the guesses for a passphrase, for an attacker who tries common choices first.
package struct PassphraseStrength: Sendable, Comparable {
    /// The logarithm of the number of guesses, to base 2.
    package let bits: Double

    /// The minimum for a passphrase that a copy of the volume is enough to attack. A guess costs about a second of a processor,
    /// so this is some 17,000 years of one.
    package static let minimum = PassphraseStrength(bits: 40)
    /// Needs no warning from here on: a thousand times the minimum.
    package static let comfortable = PassphraseStrength(bits: 50)

    /// Takes a number of bits.
    package init(bits: Double) { self.bits = bits }

    /// Orders by the number of guesses.
    package static func < (one: PassphraseStrength, other: PassphraseStrength) -> Bool { one.bits < other.bits }

    /// The library reads no more than these bytes. A longer passphrase is not weaker.
    private static let longest = 100

    /// Estimates `passphrase`.
    ///
    /// The library gets a copy in locked memory, which is wiped. During the call it has its own copy on the heap, which it
    /// overwrites. The data that it leaves on the stack is wiped here.
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

    /// One byte for each character of UTF-8, because the library counts each byte as a character. Zero bytes become others,
    /// because zero ends the library's text.
    private static func fold(_ source: Span<UInt8>, into target: inout MutableSpan<UInt8>) {
        var count = 0
        for index in 0..<source.count where count < longest {
            let byte = source[index]
            let isContinuation = byte & 0xC0 == 0x80
            // A character's last byte represents it.
            if isContinuation, count > 0 { count -= 1 }
            target[count] = byte == 0 ? 1 : byte
            count += 1
        }
    }
}
