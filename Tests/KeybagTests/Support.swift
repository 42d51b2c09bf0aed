// Cheap keybags and secrets from text, for tests only.

import SodiumKit
import VolumeFormat

@testable import Keybag

/// The cheapest password hash that is accepted.
let cheap = Argon2Parameters(passes: 1, memory: 8 << 20)

func secret(_ text: String) throws -> SecretBytes {
    let bytes = Array(text.utf8)
    return try SecretBytes(copying: bytes.span)
}

func passphrase(_ text: String) throws -> Credential {
    .passphrase(try secret(text))
}

/// The error that `body` throws, nil for none.
func keybagError(_ body: () throws(KeybagError) -> Void) -> KeybagError? {
    do throws(KeybagError) {
        try body()
        return nil
    } catch {
        return error
    }
}

/// Bytes with one bit changed at `offset`.
func flipped(_ bytes: [UInt8], at offset: Int) -> [UInt8] {
    var bytes = bytes
    bytes[offset] ^= 1
    return bytes
}

let associatedData = [UInt8](repeating: 7, count: 64)
