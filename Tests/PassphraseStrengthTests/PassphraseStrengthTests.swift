// Estimates of passphrases: ordinary and hostile input, and the limits that commands go by.

import PassphraseStrength
import SodiumKit
import Testing

@Suite struct PassphraseStrengthTests {
    private func bits(_ text: String) throws -> Double { try bits(Array(text.utf8)) }

    private func bits(_ bytes: [UInt8]) throws -> Double {
        try PassphraseStrength(of: SecretBytes(copying: bytes.span)).bits
    }

    @Test(arguments: [
        "a", "1", "password", "Passw0rd1", "hunter2", "qwertyuiop", "12345678901234567890",
        "aaaaaaaaaaaaaaaaaaaaaaaaaa", "abcabcabcabcabcabc", "letmeinletmein", "1987-06-05", "日本", "éé",
        "ああああああああああああああああ",
    ])
    func whatPeopleTryFirstIsWeak(_ text: String) throws {
        #expect(try bits(text) < PassphraseStrength.minimum.bits)
    }

    @Test(arguments: [
        "correct horse battery staple", "cargo plum violet ankle", "x8vKq2LmT9", "four random words here",
        "zwölf Boxkämpfer jagen Viktor",
    ])
    func whatIsLongAndOddIsStrong(_ text: String) throws {
        #expect(try bits(text) > PassphraseStrength.comfortable.bits)
    }

    @Test func aCharacterIsNoMoreThanOne() throws {
        // Three bytes each in UTF-8.
        #expect(try bits("日本語文") < 40)
        #expect(try bits("日本語文") > bits("日"))
    }

    @Test func anyBytesAreTaken() throws {
        #expect(try bits([0]) < 10)
        #expect(try bits([UInt8](repeating: 0, count: 4096)) < 40)
        #expect(try bits([0x80, 0x80, 0x80]) < 40)
        #expect(try bits([0xFF, 0xC3]) >= 0)
        #expect(try bits([UInt8](repeating: 0xBF, count: 4096)) >= 0)
        // A zero byte does not hide what comes after it.
        #expect(try bits(Array("a\0x8vKq2LmT9pQ".utf8)) > 50)
        let long = (0..<4096).map { UInt8(truncatingIfNeeded: 33 + $0 * 7919 % 90) }
        #expect(try bits(long) > 50)
    }
}
