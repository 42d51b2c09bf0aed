// Reading and writing little-endian integers and byte ranges in spans, bounds-checked, without allocation.

extension Span<UInt8> {
    /// Reads a little-endian integer at `offset`. Traps outside the span.
    @inlinable
    package func littleEndian<Integer: FixedWidthInteger & BitwiseCopyable>(
        at offset: Int, as type: Integer.Type = Integer.self
    ) -> Integer {
        // The call checks the bounds. Bytes have no padding, and every bit pattern is a valid integer.
        Integer(littleEndian: unsafe bytes.unsafeLoadUnaligned(fromByteOffset: offset, as: Integer.self))
    }

    /// Whether every byte is zero.
    package var isAllZero: Bool {
        var offset = 0
        while offset + 8 <= count {
            if littleEndian(at: offset, as: UInt64.self) != 0 { return false }
            offset += 8
        }
        while offset < count {
            if self[offset] != 0 { return false }
            offset += 1
        }
        return true
    }

    /// Whether the bytes equal those of `other`. Not in constant time, so never use it for secrets or MACs.
    package func hasSameBytes(as other: Span<UInt8>) -> Bool {
        guard count == other.count else { return false }
        for offset in 0..<count where self[offset] != other[offset] { return false }
        return true
    }

    /// Whether the bytes at `offset` are the ASCII text `text`.
    package func hasText(_ text: StaticString, at offset: Int = 0) -> Bool {
        guard offset >= 0, count - offset >= text.utf8CodeUnitCount else { return false }
        return text.withUTF8Buffer { buffer in
            for index in 0..<buffer.count where unsafe buffer[index] != self[offset + index] { return false }
            return true
        }
    }

    /// Reads the `length` bytes at `offset`. Traps outside the span.
    package func inline<let length: Int>(at offset: Int) -> InlineArray<length, UInt8> {
        var result = InlineArray<length, UInt8>(repeating: 0)
        for index in 0..<length { result[index] = self[offset + index] }
        return result
    }

    /// A copy of the bytes. Use it only for bytes that are not secret.
    package func copiedBytes() -> [UInt8] {
        var result = [UInt8]()
        result.reserveCapacity(count)
        for offset in 0..<count { result.append(self[offset]) }
        return result
    }
}

extension MutableSpan<UInt8> {
    /// Stores `value` little-endian at `offset`. Traps outside the span.
    @inlinable
    package mutating func storeLittleEndian<Integer: FixedWidthInteger & BitwiseCopyable>(
        _ value: Integer, at offset: Int
    ) {
        // The call checks the bounds. Bytes have no padding, and every bit pattern is a valid byte.
        var bytes = unsafe mutableBytes
        bytes.storeBytes(of: value.littleEndian, toByteOffset: offset, as: Integer.self)
    }

    /// Copies `source` to `offset`. Traps if it does not fit.
    package mutating func copy(_ source: Span<UInt8>, to offset: Int) {
        precondition(offset >= 0 && source.count <= count - offset)
        unsafe withUnsafeMutableBytes { target in
            unsafe source.withUnsafeBytes { source in
                guard let start = target.baseAddress, let bytes = source.baseAddress else { return }
                // In bounds by the precondition. Two spans, one of them exclusive, do not overlap.
                unsafe (start + offset).copyMemory(from: bytes, byteCount: source.count)
            }
        }
    }

    /// Copies the ASCII text `text` to `offset`. Traps if it does not fit.
    package mutating func copyText(_ text: StaticString, to offset: Int) {
        precondition(offset >= 0 && text.utf8CodeUnitCount <= count - offset)
        text.withUTF8Buffer { buffer in
            for index in 0..<buffer.count { self[offset + index] = unsafe buffer[index] }
        }
    }

    /// Sets the bytes of `range` to zero. Do not use it for secrets, because the compiler may remove it.
    package mutating func zero(_ range: Range<Int>) {
        for offset in range { self[offset] = 0 }
    }
}

extension StaticString {
    /// A copy of the text's bytes.
    package var bytes: [UInt8] { withUTF8Buffer { unsafe Array($0) } }
}
