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

extension VolumeKeys {
    /// Whether every key of both is the same, and neither has another one.
    func isSame(as other: borrowing VolumeKeys) -> Bool {
        bundle.entries == other.bundle.entries && bundle.agrees(with: other.bundle)
    }

    /// The same keys, but those of `type` from another volume.
    func replacing(_ type: BundleEntry.KeyType, from other: borrowing VolumeKeys) throws -> VolumeKeys {
        try changed { bytes in
            other.bundle.withBytes { others in
                for (index, entry) in other.bundle.entries.enumerated() where entry.type == type {
                    let range = index * BundleEntry.length..<(index + 1) * BundleEntry.length
                    bytes.copy(others.extracting(range), to: range.lowerBound)
                }
            }
        }
    }

    /// The same keys with more entries at the end, whose keys are random.
    func adding(_ entries: [BundleEntry], generations: [UInt16] = []) throws -> VolumeKeys {
        let more = try KeyBundle.random(entries)
        let own = bundle.entries.count * BundleEntry.length
        return try changed(byteCount: own + entries.count * BundleEntry.length, generations: generations) { bytes in
            more.withBytes { bytes.copy($0, to: own) }
        }
    }

    /// The keys of the bundle's bytes after a change.
    func changed(
        byteCount: Int? = nil, generations: [UInt16] = [], _ change: (inout MutableSpan<UInt8>) -> Void
    ) throws -> VolumeKeys {
        let count = bundle.entries.count * BundleEntry.length
        var bytes = try SecretBytes(byteCount: byteCount ?? count)
        bundle.withBytes { own in
            bytes.withMutableBytes { raw in
                raw.copy(own.extracting(0..<min(own.count, raw.count)), to: 0)
                change(&raw)
            }
        }
        let wanted = generations.isEmpty ? [UInt16](repeating: 0, count: 8) : generations
        let keys = VolumeKeys.parse(bytes, volumeID: volumeID, slot: 1, generations: wanted)
        guard let keys else { throw KeybagError.malformedBundle(slot: 0) }
        return keys
    }
}

let associatedData = [UInt8](repeating: 7, count: 64)
