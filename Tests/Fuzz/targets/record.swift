// A directory's record, from its symlink's target on: one target for one record and the other way round.

import VolumeFormat

enum RecordTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        if let record = try? DirectoryRecord(parsing: bytes) {
            let target = record.target()
            guard let decoded = DirectoryRecord.decode(target: target.span) else {
                fatalError("a record's own target does not decode")
            }
            check(decoded.span.hasSameBytes(as: bytes), "the record is written as other bytes")
        }
        if let decoded = DirectoryRecord.decode(target: bytes),
            let record = try? DirectoryRecord(parsing: decoded.span)
        {
            check(record.target().span.hasSameBytes(as: bytes), "two targets give one record")
        }
    }

    static func seeds() -> [[UInt8]] {
        var result: [[UInt8]] = []
        for defaultClass in [nil] + ProtectionClass.allCases.map(Optional.some) {
            let record = DirectoryRecord(directoryID: ObjectID(InlineArray(repeating: 6)), defaultClass: defaultClass)
            result.append(record.target())
            if let bytes = DirectoryRecord.decode(target: record.target().span) {
                result.append(bytes.span.copiedBytes())
            }
        }
        return result
    }
}
