// The values of a state file's TLVs: open epochs, open locks and keys.

extension StateFileLayout {
    static func keys(in value: Span<UInt8>) throws(FormatError) -> Keys {
        guard value.count == Keys.length else { throw .inconsistent("keys") }
        var generations = InlineArray<8, UInt16>(repeating: 0)
        for index in 0..<8 { generations[index] = value.littleEndian(at: 2 * index) }
        return Keys(generations: generations, voucher: value.inline(at: 16))
    }

    static func bytes(of keys: Keys) -> [UInt8] {
        var result = [UInt8](repeating: 0, count: Keys.length)
        var bytes = result.mutableSpan
        for index in 0..<8 { bytes.storeLittleEndian(keys.generations[index], at: 2 * index) }
        bytes.copy(keys.voucher.span, to: 16)
        return result
    }

    static func epochs(in value: Span<UInt8>) throws(FormatError) -> [UInt32] {
        guard value.count % 4 == 0, (1...maximumEpochs).contains(value.count / 4) else {
            throw .inconsistent("open epochs")
        }
        return (0..<value.count / 4).map { value.littleEndian(at: 4 * $0) }
    }

    /// Nil for none, because empty lists are left out.
    static func bytes(of epochs: ArraySlice<UInt32>) -> [UInt8]? {
        guard !epochs.isEmpty else { return nil }
        var result = [UInt8](repeating: 0, count: 4 * epochs.count)
        var bytes = result.mutableSpan
        for (index, epoch) in epochs.enumerated() { bytes.storeLittleEndian(epoch, at: 4 * index) }
        return result
    }

    static func locks(in value: Span<UInt8>) throws(FormatError) -> [OpenLock] {
        guard value.count % OpenLock.length == 0, (1...maximumLocks).contains(value.count / OpenLock.length) else {
            throw .inconsistent("open locks")
        }
        var result: [OpenLock] = []
        for start in stride(from: 0, to: value.count, by: OpenLock.length) {
            let number: UInt64 = value.littleEndian(at: start)
            guard value.littleEndian(at: start + 12, as: UInt32.self) == 0 else { throw .unsupported("reserved bytes") }
            if let last = result.last, number <= last.number { throw .inconsistent("order of locks") }
            result.append(OpenLock(number: number, done: value.littleEndian(at: start + 8)))
        }
        return result
    }

    /// Nil for none, because empty lists are left out.
    static func bytes(of locks: [OpenLock]) -> [UInt8]? {
        guard !locks.isEmpty else { return nil }
        var result = [UInt8](repeating: 0, count: OpenLock.length * locks.count)
        var bytes = result.mutableSpan
        for (index, lock) in locks.enumerated() {
            bytes.storeLittleEndian(lock.number, at: OpenLock.length * index)
            bytes.storeLittleEndian(lock.done, at: OpenLock.length * index + 8)
        }
        return result
    }
}
