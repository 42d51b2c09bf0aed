// The modification time that a file keeps while the kernel writes pages back.

internal import BackingStore

/// The time that a program or the kernel set last. Writes from the page cache change the backing file's time, so it is
/// restored after them. `FileTimes` in FuseFrontend gives the reason.
struct KeptTime: Sendable {
    private(set) var time: Timestamp?
    private var wasWrittenBack = false
    /// Whether a program or the kernel has set the time, and not the daemon assumed it.
    private var isSet = false
    /// Whether a write has moved the backing file's time since the daemon marked it last (`StoredTime`), as far as is known.
    private(set) var isUnmarked = false

    /// Whether a time is kept.
    var isKnown: Bool { time != nil }

    /// The time to restore when the last writer closes; nil if the backing file has the right one.
    var toPutBack: Timestamp? { wasWrittenBack ? time : nil }

    /// Whether a backup may have seen this time with the content from before the last write-back.
    var mayBeKnown: Bool { isSet && wasWrittenBack }

    /// Notes that a program or the kernel has set this time, and that the backing file has it.
    mutating func set(_ time: Timestamp) {
        self.time = time
        isSet = true
        wasWrittenBack = false
    }

    /// Notes that the backing file has this time again, unless another one was set meanwhile.
    mutating func putBack(_ time: Timestamp) {
        if self.time == time { wasWrittenBack = false }
    }

    /// Notes that a program has written, cut or allocated. The backing file's new time is the right one.
    mutating func moved() {
        time = nil
        isSet = false
    }

    /// Notes the backing file's time before a write from the page cache, unless a time is kept already. The kernel has
    /// that time.
    mutating func assume(_ time: Timestamp) {
        if self.time == nil { self.time = time }
    }

    /// Notes that a write-back has changed the backing file's time.
    mutating func wroteBack() {
        wasWrittenBack = true
        isUnmarked = true
    }

    /// Notes the time of a file that was just made.
    mutating func made(_ time: Timestamp) {
        assume(time)
        isUnmarked = true
    }

    private var wasMarked = false

    /// Whether the daemon has marked the backing file's time since this was asked last.
    mutating func takeMark() -> Bool {
        defer { wasMarked = false }
        return wasMarked
    }

    /// Notes that the daemon has marked the backing file's time.
    mutating func marked() {
        isUnmarked = false
        wasMarked = true
    }
}
