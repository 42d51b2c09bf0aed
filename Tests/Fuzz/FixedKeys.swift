// A volume's keys that are always the same, from docs/volume-format-vectors.json: for the targets that run volumes.

import Keybag
import SodiumKit

/// The keybag of the vector "recovery code alone".
private let keybagText = """
    5046534b4241473101008000010c0100cc99d4ae1931dbaaff7140aedc89fc8a070000000000000000000000000000000000010002000300
    04000000000000003ec90034c91a0c31fa9567dc59d78a417797b3a8f5d67c239b76c357154cde365f040000030007000000000000000000
    00000000000000000000000000000000c80001000100000000020000000000000000000000000000000000000000000069a6de4665192abf
    633f57f3902d0e1ece65d5e4399650cad148c2b95ae58e9ee1f02377d020fe3412276c0a0ba254370f9c3f20e9f688eb9db55404bc4ccf3b
    2cf98fa7aa42e198e5523aebe596fba3f9f410950f65c78c9f9d8f144d37989abc89a12af2d9cc8809da9dc66dacefdebae2ba9ccdf092cf
    9cf41bfcf88e23fb262037a78f48c6e1e356217ded0c830941498f3e292634e1a6dc33e21b8b545686756e3a25a479676801020102000000
    010600000100000000008000000000000000000000000000b941fb30f3522becc3e1d195833c6d80617a098532e877b2ef2361d2bf298456
    be53bb8eb70d306e3bddf97bdd1d082d6a8016960c3ca1613cac7a7f461a5099a5b691241c1978985368361d14f96292689c7972885bfa30
    c8133d1794dbc5853664f7018f6625ea1537c300375e7ac9b906f43b6e4fae97a2face0142f0bcbad708ede47a09c0d5f423ede20ed6b1ce
    318ad3777fa64d2fca9aa491d49486a773f264cf29f061543f8aaad575f448679d869e10861727e6f6a0a380c3ecacf85600bd1fdf5eb718
    19cac5e379d80e8ea96349fe22d1c7a534e592cfce8fd97aab889444aa90dca13ff8f0f09b4ca4854686db0817227426aaa2fe7e682e3bf2
    c9a0616c723799690ba23dbd94e77f4762f2e8578ac17d13c7a58787dd3a7b3cfeea9a80e713848f3fa4c4de87257910d579944b74b334e9
    e0922c90ebf6ceb2b9c3c9c12c9d4d2868010300040000000006000000000000000000000000000000000000000000002fa32ce9d0f090fb
    3bb2bb8efef139b992a8f3ea9fe01ca1d39781a33008bbf9ded220d10d1fd1c240bd9402480c5823b9e6b6a071ecb07225e7efed06b564cd
    168a81323a87c03abfdb0f63fb47d28cf85035c25178928a0748f5df34c02ced16371ffe66a80dfcf93ba7e23d78b8ccc66170a76cbe0bd0
    d016027fd07388f28f494417e4a8e2dd4b98c75e804cfd712c7bea43a5a1e797fd563302ed1cb61f70deffd30393b5730d1f19f6449b9030
    8a2c0a34c8549a30e177a62ab473f104111efc851d1a175b74d30e1eb1b1215a14746768b3470b06b93118face49e8d23c5ce0e9d89d3d0f
    1a75a594452ed8842c563457aca5c93569cae5a3725b43a16151aeb8850e67077ae81f7e9ddc4db36aab3be7f5887cdc6c7027fe6aab2fd0
    30c76416f619df00ff72e4c62aa021f469eb647f6a332e39ae0532e87eaab10e2fe3c8910507ebcf01700300616263f6e2fea6953bb7cd20
    814b7af29f7d591150b356ddad741fa87bc18d8bed7a9e16f95711d22518141ef068cb7e23c1610a0337e3b427c7401e507f7bffdb30ef
    """
private let recoveryCode = "W55CP-SM41J-5AX0P-SR5KV-TCNS7-ZF4H1"

/// The vector's keybag.
let fixedKeybag: Keybag = {
    let digits = keybagText.utf8.compactMap { Character(UnicodeScalar($0)).hexDigitValue }
    let bytes = stride(from: 0, to: digits.count - 1, by: 2).map { UInt8(digits[$0] << 4 | digits[$0 + 1]) }
    guard let bag = try? Keybag(parsing: bytes) else { fatalError("the vector's keybag") }
    return bag
}()

/// All keys of the vector.
func fixedVolumeKeys() -> VolumeKeys {
    let text = Array(recoveryCode.utf8)
    do {
        return try fixedKeybag.unlock(.recoveryCode(SecretBytes(copying: text.span)))
    } catch {
        fatalError("the vector's keys: \(error)")
    }
}

/// A new ring that holds them, unlocked.
func fixedRing() -> KeyRing {
    do {
        return try KeyRing(fixedKeybag, keys: fixedVolumeKeys())
    } catch {
        fatalError("no memory for keys: \(error)")
    }
}
