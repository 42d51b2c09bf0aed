// Symlinks: an input is taken as a stored target, as a target, and as a directory record's target.

import VolumeFormat

@testable import ProtectedVolume

enum SymlinkTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        let input = bytes.copiedBytes()
        if let target = cipher.openTarget(input) {
            check(NameCipher.targetLength(stored: UInt64(input.count)) == target.count, "stat shows another length")
        }
        if let reference = cipher.openLongTarget(input) {
            check(cipher.openTarget(input) == nil && !cipher.isNewerTarget(input), "a target is of two forms")
            check(cipher.openLongTarget(cipher.sealTarget(reference)) == reference, "a reference does not come back")
        }
        if let record = cipher.record(target: input), !record.isNewer {
            check(cipher.recordTarget(record) == input, "two targets give one record")
        }
        guard input.count <= 4096 else { return }
        var stored = cipher.sealTarget(input)
        check(cipher.openTarget(stored) == input, "a target does not come back")
        check(NameCipher.targetLength(stored: UInt64(stored.count)) == input.count, "stat shows another length")
        let place = input.count % stored.count
        stored[place] = stored[place] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
        check(cipher.openTarget(stored) == nil, "a changed target verifies")
    }

    static func seeds() -> [[UInt8]] {
        let record = VerifiedRecord(directoryID: directory, defaultClass: .complete)
        return [
            Array("../somewhere/else".utf8), cipher.sealTarget(Array("/absolute".utf8)),
            cipher.sealTarget(pattern(2000)),
            cipher.recordTarget(record), pattern(3030),
            cipher.sealTarget(OverflowReference(id: directory, contentLength: 4000)),
        ]
    }
}
