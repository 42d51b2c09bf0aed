// The modification time that backups see of a file, beside the one that programs are shown.

public import HostSystem
internal import VolumeFormat

/// A file's two modification times.
///
/// Many backups compare only length and modification time. If the daemon writes a file's ciphertext anew and no program has
/// changed the content, programs must be shown the former time and backups must see another one. So the *stored time* becomes
/// later by seconds. Its nanoseconds are the *mark*, and an attribute holds the *shown time*. Any write ends the mark by
/// moving the stored time. So the attribute is read only if the mark is there, and other files cost no call.
package enum StoredTime {
    /// The nanoseconds of a marked time. Whole units of 100 ns, which every store keeps that keeps parts of a second.
    package static let mark: Int64 = 1_746_100
    /// The attribute that holds the shown time. It means nothing on a file whose stored time has no mark.
    package static let attribute = Array("\(AttributeName.shownTime)".utf8)

    /// The attribute's value: seconds as i64 and nanoseconds as u32, both little-endian.
    package static func encode(_ time: Timestamp) -> [UInt8] {
        let (seconds, nanoseconds) = (UInt64(bitPattern: time.seconds), UInt64(bitPattern: time.nanoseconds))
        return (0..<8).map { UInt8(truncatingIfNeeded: seconds >> ($0 * 8)) }
            + (0..<4).map { UInt8(truncatingIfNeeded: nanoseconds >> ($0 * 8)) }
    }

    /// The time of such a value; nil for any other value.
    package static func decode(_ value: [UInt8]) -> Timestamp? {
        guard value.count == 12 else { return nil }
        let number = { (bytes: ArraySlice<UInt8>) in bytes.reversed().reduce(UInt64(0)) { $0 << 8 | UInt64($1) } }
        let nanoseconds = number(value[8...])
        guard nanoseconds < 1_000_000_000 else { return nil }
        return Timestamp(seconds: Int64(bitPattern: number(value[..<8])), nanoseconds: Int64(nanoseconds))
    }

    /// By how many seconds a later time is later at least: rsync compares whole seconds, and unison pairs of seconds.
    private static let step: Int64 = 2

    /// Whether backups see a time without a mark as later than `former`.
    static func isSeen(_ time: Timestamp, after former: Timestamp) -> Bool {
        let (later, overflow) = former.seconds.addingReportingOverflow(step)
        return !overflow && time.seconds >= later && time.nanoseconds != mark
    }

    /// The stored time after a change that only backups must see.
    static func fresh(after former: Timestamp) -> Timestamp {
        let (next, overflow) = former.seconds.addingReportingOverflow(step)
        return Timestamp(seconds: overflow ? former.seconds : max(next, WallClock.seconds), nanoseconds: mark)
    }

    /// `status` as the store gave it, with the time that programs are shown.
    static func shown(_ status: Status, of object: BackingObject) -> Status {
        // Linux lets nobody read the attributes of a file whose owner may not read it, and raising its mode for each look would
        // move its change time. Its stored time is shown.
        guard status.isMarked, !OwnerAccess.isNeeded || status.mode & 0o400 != 0,
            let value = try? object.attribute(attribute), let time = decode(value)
        else { return status }
        var result = status
        result.modified = time
        return result
    }
}

extension Status {
    /// Whether the stored time has the mark, so that the shown time is in the attribute.
    package var isMarked: Bool { kind == .regular && stored.nanoseconds == StoredTime.mark }
}

extension BackingNode {
    /// `BackingObject.status`, with the modification time that programs are shown.
    public final func status() throws(Errno) -> Status { StoredTime.shown(try object.status(), of: object) }

    /// Sets the times that programs are shown. The stored time of a marked file stays visible to backups.
    /// - Parameter isUnmarked: whether the stored time is known to have no mark.
    public final func setTimes(
        accessed: TimeChange, modified: TimeChange, isUnmarked: Bool = false
    ) throws(Errno) {
        let isKept: Bool
        switch modified {
        case .keep: isKept = true
        case .now: isKept = isUnmarked
        case .set(let time): isKept = isUnmarked && time.nanoseconds != StoredTime.mark
        }
        if isKept { return try object.setTimes(accessed: accessed, modified: modified) }
        let before = try object.status()
        guard before.isMarked else {
            // A program's own time looks like a marked one. The attribute gives it back.
            if case .set(let time) = modified, time.nanoseconds == StoredTime.mark, before.kind == .regular {
                try? keep(time)
            }
            return try object.setTimes(accessed: accessed, modified: modified)
        }
        if case .set(let time) = modified, !StoredTime.isSeen(time, after: before.stored) {
            return try renewTime(showing: time, after: before.stored, accessed: accessed)
        }
        // The mark ends. The store's clock may be coarser than ours, and gives the change time too.
        try object.setTimes(accessed: accessed, modified: modified)
        guard modified == .now else { return }
        let now = try object.status().stored
        if !StoredTime.isSeen(now, after: before.stored) { try renewTime(showing: now, after: before.stored) }
    }

    /// Makes backups see that the file has changed since `former`, and shows `shown` to programs. On a store without attributes
    /// programs are shown the time that backups see.
    package final func renewTime(
        showing shown: Timestamp, after former: Timestamp, accessed: TimeChange = .keep
    ) throws(Errno) {
        do throws(Errno) { try keep(shown) } catch { try? object.removeAttribute(StoredTime.attribute) }
        try object.setTimes(accessed: accessed, modified: .set(StoredTime.fresh(after: former)))
    }

    /// Sets the times of what is no backing file, such as a file of a mount: its modification time means nothing else.
    public final func setOwnTimes(accessed: Timestamp, modified: Timestamp) throws(Errno) {
        try object.setTimes(accessed: .set(accessed), modified: .set(modified))
    }

    /// Gives the file the stored time that `former` has.
    package final func putBackTime(_ former: Status) throws(Errno) {
        try object.setTimes(accessed: .keep, modified: .set(former.stored))
    }

    private func keep(_ shown: Timestamp) throws(Errno) {
        try object.setAttribute(StoredTime.attribute, StoredTime.encode(shown), mode: .set)
    }
}
