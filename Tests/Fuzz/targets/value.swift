// Values of extended attributes: an input is taken as a stored value of one of several names, and as a value.

import VolumeFormat

@testable import ProtectedVolume

private let names = ["user.comment", "user.", "security.capability", "trusted." + String(repeating: "n", count: 160)]
    .map {
        Array($0.utf8)
    }

enum ValueTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        guard bytes.count > 2 else { return }
        let name = names[Int(bytes[0]) % names.count]
        let other = names[(Int(bytes[0]) + 1) % names.count]
        let input = bytes.extracting(2..<bytes.count).copiedBytes()
        for stored in [input, cipher.sealValue(input, name: name, of: directory)] {
            guard let value = cipher.openValue(stored, name: name, of: directory) else {
                check(stored == input, "a value does not come back")
                continue
            }
            check(value.count + 41 == stored.count, "a value has another length")
            check(stored == input || value == input, "a value comes back as another")
            check(cipher.openValue(stored, name: other, of: directory) == nil, "a value verifies under another name")
            check(cipher.openValue(stored, name: name, of: otherDirectory) == nil, "a value verifies on another object")
            // The object's ID and the name stand behind each other: moving the border between them must not do.
            check(
                cipher.openValue(stored, name: name + [0], of: directory) == nil, "a value verifies under a longer name"
            )
            var changed = stored
            changed[(Int(bytes[1]) * 257) % stored.count] ^= 1 << (bytes[0] & 7)
            check(cipher.openValue(changed, name: name, of: directory) == nil, "a changed value verifies")
            check(cipher.openValue(Array(stored.dropLast()), name: name, of: directory) == nil, "a cut value verifies")
            check(cipher.openValue(stored + [0], name: name, of: directory) == nil, "a longer value verifies")
        }
    }

    static func seeds() -> [[UInt8]] {
        var result: [[UInt8]] = []
        for (number, name) in names.enumerated() {
            for length in [0, 1, 100, 4000] {
                result.append([UInt8(number), 3] + cipher.sealValue(pattern(length), name: name, of: directory))
            }
        }
        return result + [[0, 0] + pattern(40), [1, 1] + pattern(41)]
    }
}
