// The fields of every stored object, named as in docs/judge/volume-format.md: for tools and tests that go through all of them.

package import VolumeFormat

/// A field of a stored object.
package struct LayoutField: Sendable, Hashable {
    /// Its name in the format's document.
    package let name: String
    /// Its position from the object's start.
    package let range: Range<Int>

    /// Names the bytes in `range`.
    package init(_ name: String, _ range: Range<Int>) {
        self.name = name
        self.range = range
    }

    /// Fields that follow each other without gaps from `start` on.
    package static func sequence(_ fields: [(name: String, length: Int)], from start: Int = 0) -> [LayoutField] {
        var end = start
        return fields.map { field in
            defer { end += field.length }
            return LayoutField(field.name, end..<end + field.length)
        }
    }

    /// version ‖ nonce ‖ ciphertext ‖ tag in `count` bytes, as symlinks' targets and attributes' values are stored.
    package static func sealed(count: Int, from start: Int = 0) -> [LayoutField] {
        let text = max(count - 41, 0)
        return sequence([("version", 1), ("nonce", 24), ("ciphertext", text), ("tag", 16)], from: start)
    }

    /// IV ‖ ciphertext in `count` bytes, as names are encoded.
    package static func encodedName(count: Int) -> [LayoutField] {
        sequence([("IV", NameLimits.ivLength), ("ciphertext", max(count - NameLimits.ivLength, 0))])
    }

    /// The same field in an object that begins at `start`, its name behind `prefix`.
    package func moved(by start: Int, prefix: String = "") -> LayoutField {
        LayoutField(prefix + name, range.lowerBound + start..<range.upperBound + start)
    }
}

extension FileHeader {
    /// The header's fields; the wrapped file key's parts depend on the class.
    package static func fields(of protectionClass: ProtectionClass) -> [LayoutField] {
        let wrap: [(name: String, length: Int)] =
            protectionClass == .completeUnlessOpen
            ? [("wrap: enc", 32), ("wrap: ciphertext", 32), ("wrap: tag", 16)]
            : [("wrap: nonce", 24), ("wrap: ciphertext", 32), ("wrap: tag", 16), ("wrap: zeros", 8)]
        return LayoutField.sequence(
            [
                ("magic", 3), ("version", 1), ("class", 1), ("suite", 1), ("block_log2", 1), ("compression", 1),
                ("flags", 2), ("generation", 2), ("freshness", 4), ("file ID", 16),
            ] + wrap + [("MAC", macRange.count)])
    }
}

extension PageGeometry {
    /// The fields of block `index` in its page; the header is no part of block 0.
    package func fields(ofBlock index: UInt64) -> [LayoutField] {
        LayoutField.sequence(
            [
                ("nonce", nonceRange(ofBlock: index).count), ("payload length", 2), ("block flags", 1),
                ("reserved", 1), ("epoch", 4), ("ciphertext", ciphertextRange(ofBlock: index).count),
                ("tag", tagRange.count),
            ], from: nonceRange(ofBlock: index).lowerBound)
    }
}

extension DirectoryRecord {
    /// The record's fields, in the decoded 44 bytes.
    package static var fields: [LayoutField] {
        LayoutField.sequence([
            ("magic", 3), ("version", 1), ("default class", 1), ("flags", 1), ("generation", 2), ("freshness", 4),
            ("directory ID", 16), ("MAC", macRange.count),
        ])
    }
}

extension SlotLayout {
    /// The slot's fields.
    package var fields: [LayoutField] {
        LayoutField.sequence([
            ("length", 2), ("kind", 1), ("flags", 1), ("slot ID", 4), ("KDF", 1), ("entries", 1),
            ("ext length", 2), ("passes", 4), ("memory", 8), ("reserved", 8), ("salt", 16), ("commitment", 32),
            ("nonce", 24), ("ext", extensions.length), ("bundle", bundle.count - Self.tagLength),
            ("bundle's tag", Self.tagLength),
        ]).filter { !$0.range.isEmpty }
    }
}

extension KeybagLayout {
    /// The fields of the header, of each slot in its order (`slot 1: salt`), the TLVs as one, and both MACs.
    package var fields: [LayoutField] {
        var result = LayoutField.sequence([
            ("magic", 8), ("version", 2), ("header length", 2), ("suite", 1), ("block_log2", 1), ("name scheme", 1),
            ("flags", 1), ("UUID", 16), ("serial", 8), ("incompatible features", 4), ("compatible features", 4),
            ("generations", 16), ("pk", 32), ("keybag length", 4), ("number of slots", 2), ("reserved", 2),
            ("read-only compatible features", 4), ("bytes of TLVs", 4), ("reserved, last", 16),
        ])
        var end = Self.headerLength
        for (index, slot) in slots.enumerated() {
            let fields = slot.known?.fields ?? [LayoutField("newer slot", 0..<slot.length)]
            result += fields.map { $0.moved(by: end, prefix: "slot \(index + 1): ") }
            end += slot.length
        }
        return result
            + LayoutField.sequence(
                [("TLVs", extensions.length), ("first MAC", Self.macLength), ("second MAC", Self.macLength)], from: end
            ).filter { !$0.range.isEmpty }
    }
}

extension StateFileLayout {
    /// The state file's fields; those of its open locks follow each other (`lock 1: number`). Only TLVs that this version knows,
    /// in the order in which it makes them.
    package var fields: [LayoutField] {
        typealias Field = (name: String, length: Int)
        var result: [Field] = [
            ("magic", 8), ("version", 2), ("length of the header", 2), ("length", 4), ("UUID", 16), ("serial", 8),
            ("pk", 32), ("second MAC", 32), ("incompatible features", 4), ("read-only compatible features", 4),
            ("compatible features", 4), ("flags", 4), ("highest epoch", 4), ("reserved", 4),
            ("unknown header bytes", rest.count),
        ]
        func add(_ name: String, _ fields: [Field]) {
            result += [("\(name): type", 2), ("\(name): length", 4)]
            for field in fields { result.append(("\(name): \(field.name)", field.length)) }
        }
        if let writer { add("writer", [("text", writer.utf8.count)]) }
        if !openEpochs.isEmpty { add("open epochs", [("numbers", 4 * openEpochs.count)]) }
        let locks = openLocks.indices.flatMap { index -> [Field] in
            let name = "lock \(index + 1)"
            return [("\(name): number", 8), ("\(name): done", 4), ("\(name): reserved", 4)]
        }
        if !locks.isEmpty { add("open locks", locks) }
        if let store {
            add(
                "store",
                [("inode", 8), ("seconds", 8), ("nanoseconds", 4), ("file system", 8), ("path", store.path.count)])
        }
        if keys != nil { add("keys", [("generations", 16), ("voucher", 32)]) }
        result.append(("hash", Self.hashLength))
        return LayoutField.sequence(result).filter { !$0.range.isEmpty }
    }
}

extension LateFileHeader {
    /// The header's fields.
    package static var fields: [LayoutField] {
        LayoutField.sequence([
            ("magic", 8), ("version", 2), ("generation", 2), ("generation of B", 2), ("reserved", 2), ("UUID", 16),
            ("number", 8), ("reserved, second", 8), ("nonce", nonceRange.count), ("wrapped key", wrapRange.count - 16),
            ("wrapped key's tag", 16), ("reserved, last", 8),
        ])
    }
}

extension LateRecordHeader {
    /// The whole record's fields, the sealed data's and the MAC with them.
    package var fields: [LayoutField] {
        LayoutField.sequence([
            ("length", 4), ("kind", 1), ("reserved", 3), ("running number", 8), ("file ID", 16), ("offset", 8),
            ("seconds", 8), ("nanoseconds", 4), ("reserved, last", 4), ("enc", kind == .data ? 32 : 0),
            ("ciphertext", dataLength), ("tag", kind == .data ? 16 : 0), ("MAC", Self.macLength),
        ]).filter { !$0.range.isEmpty }
    }
}
