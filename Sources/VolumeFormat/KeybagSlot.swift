// A slot of the keybag, of this version or of a newer one, and the label that both can have.

/// A slot that this program understands, or one of a newer version.
package enum KeybagSlot: Sendable {
    /// A slot of a known kind.
    case known(SlotLayout)
    /// A slot that is skipped and kept byte for byte.
    case newer(NewerSlot)

    /// Parses the slot at `offset`, which ends at or before `end`.
    ///
    /// - Throws: the error of a newer slot if the program must understand it.
    package init(parsing bytes: Span<UInt8>, at offset: Int, end: Int) throws(FormatError) {
        do throws(FormatError) {
            self = .known(try SlotLayout(parsing: bytes, at: offset, end: end))
        } catch {
            guard error.isNewer else { throw error }
            let range = try SlotLayout.range(in: bytes, at: offset, end: end)
            let slot = NewerSlot(bytes: bytes.extracting(range).copiedBytes())
            guard !slot.mustBeUnderstood else { throw error }
            self = .newer(slot)
        }
    }

    /// The slot, if this program understands it.
    package var known: SlotLayout? {
        get { if case .known(let slot) = self { slot } else { nil } }
        set { if let newValue { self = .known(newValue) } }
    }

    /// Its number, never used again.
    package var slotID: UInt32 {
        switch self {
        case .known(let slot): slot.slotID
        case .newer(let slot): slot.slotID
        }
    }

    /// Bytes of the slot.
    package var length: Int {
        switch self {
        case .known(let slot): slot.length
        case .newer(let slot): slot.bytes.count
        }
    }

    /// Writes the slot's bytes at `offset`. Traps if they do not fit.
    package func store(into bytes: inout MutableSpan<UInt8>, at offset: Int) {
        switch self {
        case .known(let slot): slot.store(into: &bytes, at: offset)
        case .newer(let slot): bytes.copy(slot.bytes.span, to: offset)
        }
    }
}

/// A slot of a newer version. Only what stays in every version is read: length, kind, flags, number, and the TLVs.
package struct NewerSlot: Sendable, Equatable {
    /// All of it, at least 8 bytes.
    package let bytes: [UInt8]

    /// A slot of at least 8 bytes, which begin with their number.
    package init(bytes: [UInt8]) { self.bytes = bytes }

    /// The number of its kind.
    package var kind: UInt8 { bytes[2] }
    /// Whether a program that does not know the slot must not use the keybag.
    package var mustBeUnderstood: Bool { bytes[3] & SlotLayout.mustBeUnderstood != 0 }
    /// Whether it needs the device key too.
    package var isBoundToDevice: Bool { bytes[3] & SlotLayout.bindDevice != 0 }
    /// Its number, never used again.
    package var slotID: UInt32 { bytes.span.littleEndian(at: 4) }

    /// What lists show of it. It is not encrypted.
    package var label: SlotLabel {
        let start = SlotLayout.fixedLength
        guard bytes.count >= start else { return SlotLabel() }
        let length = Int(bytes.span.littleEndian(at: 10, as: UInt16.self))
        guard length <= bytes.count - start else { return SlotLabel() }
        let values = bytes.span.extracting(start..<start + length)
        return SlotLabel(
            name: TypeLengthValues.value(of: SlotLabel.nameType, in: values),
            seconds: TypeLengthValues.value(of: SlotLabel.dateType, in: values))
    }
}

/// The label of a slot, for people: a name and the date of making. It is not encrypted.
package struct SlotLabel: Sendable, Equatable {
    /// TLV: the name.
    package static let nameType: UInt16 = 1
    /// TLV: the date of making.
    package static let dateType: UInt16 = 2
    /// Both types.
    package static let knownTypes = [nameType, dateType]
    /// The longest name, in bytes.
    package static let maximumLength = 64

    /// The name. Nil if the slot has none that can be shown.
    package var name: String?
    /// The date of making, in seconds since 1970.
    package var seconds: UInt64?

    /// A label.
    package init(name: String? = nil, seconds: UInt64? = nil) {
        self.name = name
        self.seconds = seconds
    }

    /// A label from the values of both TLVs. A value of another form is not shown.
    init(name: [UInt8]?, seconds: [UInt8]?) {
        self.name = name.flatMap(Self.text)
        self.seconds = seconds.flatMap { $0.count == 8 ? $0.span.littleEndian(at: 0) : nil }
    }

    /// The text of a name: 1 to 64 bytes of UTF-8 without characters that are not shown. Nil for other bytes, which may come from a
    /// keybag that nothing has verified.
    package static func text(_ value: [UInt8]) -> String? {
        guard (1...maximumLength).contains(value.count), let text = String(validating: value, as: UTF8.self),
            !text.unicodeScalars.contains(where: UnshownCharacter.contains)
        else { return nil }
        return text
    }
}

/// The characters that a label must not have, and that text of a volume is not shown with (section 4).
package enum UnshownCharacter {
    /// Control characters, those that end a line or turn the direction of text, and those that nobody sees.
    package static func contains(_ scalar: Unicode.Scalar) -> Bool {
        switch scalar.value {
        case 0...0x1f, 0x7f...0x9f, 0x61c, 0x200b, 0x200e...0x200f, 0x2028...0x202e, 0x2060...0x206f, 0xfeff: true
        default: false
        }
    }
}

extension SlotLayout {
    /// What lists show of it. It is not encrypted.
    package var label: SlotLabel {
        get { SlotLabel(name: extensions[SlotLabel.nameType], seconds: extensions[SlotLabel.dateType]) }
        set {
            extensions[SlotLabel.nameType] = newValue.name.map { Array($0.utf8) }
            extensions[SlotLabel.dateType] = newValue.seconds.map { seconds in
                var value = [UInt8](repeating: 0, count: 8)
                var bytes = value.mutableSpan
                bytes.storeLittleEndian(seconds, at: 0)
                return value
            }
        }
    }
}
