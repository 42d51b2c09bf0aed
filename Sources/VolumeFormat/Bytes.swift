// Reading and writing little-endian integers and byte ranges in spans, bounds-checked, without allocation.

extension RawSpan {
    /// The integer of type `type` that stands little-endian at byte `offset`; traps outside the span.
    @inlinable
    package func littleEndian<Integer: FixedWidthInteger & BitwiseCopyable>(
        at offset: Int, as type: Integer.Type = Integer.self
    ) -> Integer {
        // Bounds are checked by the call; every bit pattern is a valid integer.
        Integer(littleEndian: unsafe unsafeLoadUnaligned(fromByteOffset: offset, as: Integer.self))
    }

    /// The byte at `offset`; traps outside the span.
    @inlinable
    package func byte(at offset: Int) -> UInt8 {
        unsafe unsafeLoad(fromByteOffset: offset, as: UInt8.self)
    }

    /// Whether every byte is zero.
    package var isAllZero: Bool {
        var offset = 0
        while offset + 8 <= byteCount {
            if littleEndian(at: offset, as: UInt64.self) != 0 { return false }
            offset += 8
        }
        while offset < byteCount {
            if byte(at: offset) != 0 { return false }
            offset += 1
        }
        return true
    }

    /// Whether the bytes equal those of `other`. Not in constant time: never for secrets or MACs.
    package func hasSameBytes(as other: RawSpan) -> Bool {
        guard byteCount == other.byteCount else { return false }
        for offset in 0..<byteCount where byte(at: offset) != other.byte(at: offset) { return false }
        return true
    }

    /// Whether the bytes at `offset` are the ASCII text `text`.
    package func hasText(_ text: StaticString, at offset: Int = 0) -> Bool {
        guard offset >= 0, byteCount - offset >= text.utf8CodeUnitCount else { return false }
        return text.withUTF8Buffer { buffer in
            for index in 0..<buffer.count where unsafe buffer[index] != byte(at: offset + index) { return false }
            return true
        }
    }

    /// A copy of the bytes. Only for bytes that are not secret.
    package func copiedBytes() -> [UInt8] {
        var result = [UInt8]()
        result.reserveCapacity(byteCount)
        for offset in 0..<byteCount { result.append(byte(at: offset)) }
        return result
    }
}

extension MutableRawSpan {
    /// Stores `value` little-endian at byte `offset`; traps outside the span.
    @inlinable
    package mutating func storeLittleEndian<Integer: FixedWidthInteger & BitwiseCopyable>(
        _ value: Integer, at offset: Int
    ) {
        storeBytes(of: value.littleEndian, toByteOffset: offset, as: Integer.self)
    }

    /// Copies `source` to byte `offset`; traps where it does not fit.
    package mutating func copy(_ source: RawSpan, to offset: Int) {
        precondition(offset >= 0 && source.byteCount <= byteCount - offset)
        var index = 0
        while index + 8 <= source.byteCount {
            storeBytes(
                of: unsafe source.unsafeLoadUnaligned(fromByteOffset: index, as: UInt64.self),
                toByteOffset: offset + index, as: UInt64.self)
            index += 8
        }
        while index < source.byteCount {
            storeBytes(of: source.byte(at: index), toByteOffset: offset + index, as: UInt8.self)
            index += 1
        }
    }

    /// Copies the ASCII text `text` to byte `offset`; traps where it does not fit.
    package mutating func copyText(_ text: StaticString, to offset: Int) {
        precondition(offset >= 0 && text.utf8CodeUnitCount <= byteCount - offset)
        text.withUTF8Buffer { buffer in
            for index in 0..<buffer.count {
                unsafe storeBytes(of: buffer[index], toByteOffset: offset + index, as: UInt8.self)
            }
        }
    }

    /// Sets the bytes of `range` to zero. For bytes that are not secret (the compiler may not elide, but no promise is made).
    package mutating func zero(_ range: Range<Int>) {
        for offset in range { storeBytes(of: 0, toByteOffset: offset, as: UInt8.self) }
    }
}
