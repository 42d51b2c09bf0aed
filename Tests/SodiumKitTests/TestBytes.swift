// Hexadecimal and array forms of what the tests compare; nothing here is secret.

import SodiumKit

/// The bytes of a hexadecimal text; traps on anything else.
func hex(_ text: String) -> [UInt8] {
    let digits = text.utf8.map { UInt8($0 >= 97 ? $0 - 87 : $0 - 48) }
    return stride(from: 0, to: digits.count, by: 2).map { digits[$0] << 4 | digits[$0 + 1] }
}

func array(_ bytes: Span<UInt8>) -> [UInt8] {
    bytes.indices.map { bytes[$0] }
}

func array(_ key: borrowing SecretKey) -> [UInt8] { key.withBytes { array($0) } }
func array(_ secret: borrowing SecretBytes) -> [UInt8] { secret.withBytes { array($0) } }

func optionalArray(_ key: borrowing SecretKey?) -> [UInt8]? {
    switch key {
    case .some(let key): array(key)
    case nil: nil
    }
}

func optionalArray(_ secret: borrowing SecretBytes?) -> [UInt8]? {
    switch secret {
    case .some(let secret): array(secret)
    case nil: nil
    }
}

func array<let count: Int>(_ bytes: InlineArray<count, UInt8>) -> [UInt8] { bytes.indices.map { bytes[$0] } }

func key(_ bytes: [UInt8]) throws -> SecretKey { try SecretKey(copying: bytes.span) }

/// 0, 1, 2 … as a key.
func countingKey() throws -> SecretKey { try key((0..<32).map { UInt8($0) }) }

func randomArray(_ count: Int) -> [UInt8] { (0..<count).map { _ in UInt8.random(in: 0...255) } }

/// Runs `body` with the array's bytes to be written.
func withMutableBytes<Result>(_ array: inout [UInt8], _ body: (inout MutableSpan<UInt8>) throws -> Result) rethrows
    -> Result
{
    var bytes = array.mutableSpan
    return try body(&bytes)
}
