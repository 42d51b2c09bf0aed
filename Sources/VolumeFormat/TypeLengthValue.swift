// Type-length-value entries, with which keybags, slots and state files grow.

/// A list of TLVs (type u16, length u32, value), in the order in which they are stored. Unknown types are kept.
package struct TypeLengthValues: Sendable, Equatable {
    /// Bytes before a value.
    package static let headerLength = 6
    /// Bit 15 of a type: a reader that does not know the type must treat what holds it as newer.
    package static let mustBeUnderstood: UInt16 = 0x8000

    /// A value with the type that says what it is.
    package struct Entry: Sendable, Equatable {
        /// What the value means. Each object has its own types.
        package var type: UInt16
        /// Its bytes, without type and length.
        package var value: [UInt8]

        /// An entry.
        package init(type: UInt16, value: [UInt8]) {
            self.type = type
            self.value = value
        }
    }

    /// The entries, in the order in which they are stored.
    package private(set) var entries: [Entry]

    /// An empty list.
    package init() { entries = [] }

    /// Parses a list that fills `bytes` exactly.
    ///
    /// - Parameter known: the types that the object's layout knows. They must not occur twice.
    /// - Throws: `.inconsistent` if the entries do not fill the bytes or repeat a known type; `.unsupported` if an unknown type
    ///   must be understood.
    package init(parsing bytes: Span<UInt8>, known: [UInt16]) throws(FormatError) {
        self.init()
        var offset = 0
        while offset < bytes.count {
            guard bytes.count - offset >= Self.headerLength else { throw .inconsistent("TLV") }
            let type: UInt16 = bytes.littleEndian(at: offset)
            let length = Int(bytes.littleEndian(at: offset + 2, as: UInt32.self))
            offset += Self.headerLength
            guard bytes.count - offset >= length else { throw .inconsistent("TLV") }
            entries.append(Entry(type: type, value: bytes.extracting(offset..<offset + length).copiedBytes()))
            offset += length
        }
        for (index, entry) in entries.enumerated() {
            if known.contains(entry.type) {
                guard !entries[..<index].contains(where: { $0.type == entry.type }) else { throw .inconsistent("TLV") }
            } else if entry.type & Self.mustBeUnderstood != 0 {
                throw .unsupported("TLV")
            }
        }
    }

    /// The value of the first entry of `type` in a list of any version. Nil also if the list is cut off before it.
    package static func value(of type: UInt16, in bytes: Span<UInt8>) -> [UInt8]? {
        var offset = 0
        while bytes.count - offset >= headerLength {
            let length = Int(bytes.littleEndian(at: offset + 2, as: UInt32.self))
            let start = offset + headerLength
            guard bytes.count - start >= length else { return nil }
            if bytes.littleEndian(at: offset, as: UInt16.self) == type {
                return bytes.extracting(start..<start + length).copiedBytes()
            }
            offset = start + length
        }
        return nil
    }

    /// Bytes of the list.
    package var length: Int { entries.reduce(0) { $0 + Self.headerLength + $1.value.count } }

    /// The value of the first entry of `type`. Setting it replaces that entry in its place, adds one at the end, or removes it.
    package subscript(type: UInt16) -> [UInt8]? {
        get { entries.first { $0.type == type }?.value }
        set {
            let index = entries.firstIndex { $0.type == type }
            switch (index, newValue) {
            case (let index?, let value?): entries[index].value = value
            case (let index?, nil): entries.remove(at: index)
            case (nil, let value?): entries.append(Entry(type: type, value: value))
            case (nil, nil): break
            }
        }
    }

    /// Writes the list at `offset`. Traps if it does not fit.
    package func store(into bytes: inout MutableSpan<UInt8>, at offset: Int) {
        var offset = offset
        for entry in entries {
            bytes.storeLittleEndian(entry.type, at: offset)
            bytes.storeLittleEndian(UInt32(entry.value.count), at: offset + 2)
            bytes.copy(entry.value.span, to: offset + Self.headerLength)
            offset += Self.headerLength + entry.value.count
        }
    }
}

/// The TLV `writer`: the program that wrote an object last. It is shown to people, so only printable ASCII is accepted.
package enum WriterName {
    /// The longest text, in bytes.
    package static let maximumLength = 64

    /// The text of a writer, which may come from bytes that nothing has verified. Nil if it is not 1 to 64 bytes of printable
    /// ASCII.
    package static func text(_ value: [UInt8]?) -> String? {
        guard let value, (1...maximumLength).contains(value.count), value.allSatisfy({ 0x20...0x7e ~= $0 }) else {
            return nil
        }
        return String(decoding: value, as: UTF8.self)
    }

    /// Whether a text is what a program writes about itself: its name and its version, and nothing that reads as an
    /// instruction. Others are not shown where nothing has verified them.
    package static func isNameAndVersion(_ text: String) -> Bool {
        let words = text.utf8.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard words.count == 2, let first = words[1].first, isDigit(first) else { return false }
        return words.allSatisfy { word in
            !word.isEmpty && word.allSatisfy { isLetter($0) || isDigit($0) || "._+-".utf8.contains($0) }
        }
    }

    /// Whether this version of the program, or an earlier one, wrote `text` about itself.
    package static func isThisVersionOrEarlier(_ text: String) -> Bool {
        let parts = text.split(separator: " ", omittingEmptySubsequences: false)
        guard parts.count == 2, parts[0] == "protectfs", let found = numbers(parts[1]),
            let own = numbers(ProgramVersion.number[...])
        else { return false }
        return !own.lexicographicallyPrecedes(found)
    }

    private static func numbers(_ version: Substring) -> [UInt32]? {
        let parts = version.split(separator: ".", omittingEmptySubsequences: false).map { UInt32($0) }
        return parts.contains(nil) ? nil : parts.compactMap { $0 }
    }

    private static func isLetter(_ byte: UInt8) -> Bool { 0x61...0x7a ~= byte | 0x20 }
    private static func isDigit(_ byte: UInt8) -> Bool { 0x30...0x39 ~= byte }
}
