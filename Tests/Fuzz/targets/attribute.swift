// Extended attributes: an input is taken as a backing name, as a stored value, and as a value.

import VolumeFormat

@testable import ProtectedVolume

private let name = Array("user.comment".utf8)

enum AttributeTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        let input = bytes.copiedBytes()
        if let decoded = cipher.decodeAttribute(input, of: directory) {
            let again = try? cipher.encodeAttribute(decoded, of: directory)
            check(again == nil || again == input, "two backing names give one attribute")
            check(cipher.decodeAttribute(input, of: otherDirectory) == nil, "an attribute verifies on another object")
        }
        if let value = cipher.openValue(input, name: name, of: directory) {
            check(value.count + 41 == input.count, "a value has another length")
            check(cipher.openValue(input, name: name, of: otherDirectory) == nil, "a value verifies on another object")
        }
        if input.count <= NameLimits.longestAttribute, !input.isEmpty,
            let encoded = try? cipher.encodeAttribute(input, of: directory)
        {
            check(cipher.decodeAttribute(encoded, of: directory) == input, "an attribute's name does not come back")
        }
        var stored = cipher.sealValue(input, name: name, of: directory)
        check(cipher.openValue(stored, name: name, of: directory) == input, "a value does not come back")
        stored[input.count % stored.count] ^= 1
        check(cipher.openValue(stored, name: name, of: directory) == nil, "a changed value verifies")
    }

    static func seeds() -> [[UInt8]] {
        var result: [[UInt8]] = [name, pattern(100)]
        if let encoded = try? cipher.encodeAttribute(name, of: directory) { result.append(encoded) }
        result.append(cipher.sealValue(pattern(20), name: name, of: directory))
        result.append(cipher.sealValue([], name: name, of: directory))
        return result
    }
}
