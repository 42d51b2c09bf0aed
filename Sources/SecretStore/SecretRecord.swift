// Encodes an item's attributes as bytes, for the extended attribute of its file.

import VolumeFormat

/// Writes and reads the record. It consists of "PSI", version, kind, two times, the number of attributes, and the name
/// and value of each attribute, sorted by name. Integers are little-endian. Each length precedes its bytes.
enum SecretRecord {
    /// The longest record, in bytes. File systems store a file's extended attributes in one block.
    static let largest = 3072

    private static let magic = Array("PSI".utf8) + [1]

    /// The item as bytes; nil if they exceed `largest`.
    static func encode(_ item: SecretItem) -> [UInt8]? {
        var bytes = magic + [item.kind.rawValue]
        append(UInt64(bitPattern: item.created), to: &bytes)
        append(UInt64(bitPattern: item.modified), to: &bytes)
        guard item.attributes.count <= 255 else { return nil }
        bytes.append(UInt8(item.attributes.count))
        for (name, value) in item.attributes.sorted(by: { $0.key < $1.key }) {
            guard !name.isEmpty, name.utf8.count <= 255 else { return nil }
            bytes.append(UInt8(name.utf8.count))
            bytes += name.utf8
            guard length(of: value) <= largest else { return nil }
            write(value, to: &bytes)
        }
        return bytes.count <= largest ? bytes : nil
    }

    /// Decodes an item; nil if `encode` cannot have written the bytes. Its class is `none` until the caller reads it
    /// from the file.
    static func decode(_ bytes: [UInt8]) -> SecretItem? {
        var rest = bytes[...]
        guard take(4, &rest).map(Array.init) == magic, let kind = byte(&rest).flatMap(SecretKind.init(rawValue:)),
            let created = integer(&rest), let modified = integer(&rest), let count = byte(&rest)
        else { return nil }
        var attributes: [String: SecretAttribute] = [:]
        for _ in 0..<count {
            guard let length = byte(&rest), length > 0, let word = take(Int(length), &rest),
                let name = String(validating: word, as: UTF8.self), let value = value(&rest),
                attributes.updateValue(value, forKey: name) == nil
            else { return nil }
        }
        guard rest.isEmpty else { return nil }
        var item = SecretItem(kind, attributes, class: .none)
        item.created = Int64(bitPattern: created)
        item.modified = Int64(bitPattern: modified)
        return item
    }

    /// Writes a value: its type, its length and its bytes. A missing value has its own type.
    static func write(_ value: SecretAttribute?, to bytes: inout [UInt8]) {
        let (type, content): (UInt8, [UInt8]) =
            switch value {
            case nil: (0, [])
            case .text(let text): (1, Array(text.utf8))
            case .bytes(let value): (2, value)
            case .number(let number): (3, little(UInt64(bitPattern: number)))
            case .flag(let flag): (4, [flag ? 1 : 0])
            }
        bytes.append(type)
        bytes += little(UInt64(content.count)).prefix(4)
        bytes += content
    }

    private static func value(_ rest: inout ArraySlice<UInt8>) -> SecretAttribute? {
        guard let type = byte(&rest), let length = take(4, &rest) else { return nil }
        let count = length.reversed().reduce(0) { $0 << 8 | Int($1) }
        guard let content = take(count, &rest) else { return nil }
        switch type {
        case 1: return String(validating: content, as: UTF8.self).map { .text($0) }
        case 2: return .bytes(Array(content))
        case 3:
            var number = content
            guard count == 8, let value = integer(&number) else { return nil }
            return .number(Int64(bitPattern: value))
        case 4:
            guard count == 1, let flag = content.first, flag <= 1 else { return nil }
            return .flag(flag == 1)
        default: return nil
        }
    }

    private static func length(of value: SecretAttribute) -> Int {
        switch value {
        case .text(let text): text.utf8.count
        case .bytes(let bytes): bytes.count
        case .number, .flag: 8
        }
    }

    private static func little(_ value: UInt64) -> [UInt8] {
        (0..<8).map { UInt8(truncatingIfNeeded: value >> ($0 * 8)) }
    }

    private static func append(_ value: UInt64, to bytes: inout [UInt8]) { bytes += little(value) }

    private static func byte(_ rest: inout ArraySlice<UInt8>) -> UInt8? { rest.popFirst() }

    private static func integer(_ rest: inout ArraySlice<UInt8>) -> UInt64? {
        take(8, &rest)?.reversed().reduce(0) { $0 << 8 | UInt64($1) }
    }

    private static func take(_ count: Int, _ rest: inout ArraySlice<UInt8>) -> ArraySlice<UInt8>? {
        guard count <= rest.count else { return nil }
        defer { rest = rest.dropFirst(count) }
        return rest.prefix(count)
    }
}
