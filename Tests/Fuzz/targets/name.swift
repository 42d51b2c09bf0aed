// Names of entries: an input is taken as a backing name and as a name.

import BackingStore
import VolumeFormat

@testable import ProtectedVolume

enum NameTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        let input = bytes.copiedBytes()
        // As a backing name: what verifies is what the same name is encoded to.
        if let name = cipher.decode(input, in: directory) {
            check(NameCipher.isValid(name), "a name decodes to what no entry can be called")
            if name.count <= NameLimits.longestDirect {
                let again = try? cipher.encode(name, in: directory)
                check(again.map { Array($0.entry.bytes) } == input, "two backing names give one name")
            }
            check(cipher.decode(input, in: otherDirectory) == nil, "a name verifies in another directory")
        }
        _ = cipher.decode(input, in: nil)
        _ = ReservedName.kind(of: bytes)
        // As a name: it comes back, and a changed encoding does not.
        guard let encoded = try? cipher.encode(input, in: directory) else {
            check(!NameCipher.isValid(input), "a valid name is refused")
            return
        }
        let encoding = encoded.companion?.target ?? Array(encoded.entry.bytes)
        check(cipher.decode(encoding, in: directory) == input, "a name does not come back")
        check(
            (input.count > NameLimits.longestDirect) == (encoded.companion != nil), "a name is long at another length")
        check(encoded.entry.bytes.count <= 255, "a backing name is too long")
        var changed = encoding
        let place = Int(input[0]) % changed.count
        changed[place] = changed[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
        check(cipher.decode(changed, in: directory) == nil, "a changed name verifies")
    }

    static func seeds() -> [[UInt8]] {
        var result: [[UInt8]] = [Array("a".utf8), Array("hello world.txt".utf8), Array(".protectfs.dir".utf8)]
        result.append([UInt8](repeating: 120, count: 175))
        result.append([UInt8](repeating: 121, count: 255))
        for name in result {
            guard let encoded = try? cipher.encode(name, in: directory) else { continue }
            result.append(Array(encoded.entry.bytes))
            if let target = encoded.companion?.target { result.append(target) }
        }
        return result
    }
}
