// The modification time that a file has to keep while the kernel writes pages back.

internal import BackingStore

/// What was set last, by a program or by the kernel: writes from the page cache move the backing file's time, and must not.
/// `FileTimes` in FuseFrontend says why.
struct KeptTime: Sendable {
    private var time: Timestamp?
    private var wasWrittenBack = false

    /// Whether there is a time to keep.
    var isKnown: Bool { time != nil }

    /// The time to put back at the last close; nil if the backing file has the right one.
    var toPutBack: Timestamp? { wasWrittenBack ? time : nil }

    /// A program or the kernel has set this time, and the backing file has it.
    mutating func set(_ time: Timestamp) {
        self.time = time
        wasWrittenBack = false
    }

    /// A program has written, cut or allocated: the backing file's new time is the right one.
    mutating func moved() { time = nil }

    /// Before a write from the page cache: the backing file's time, unless one is known, is the one that the kernel has.
    mutating func assume(_ time: Timestamp) {
        if self.time == nil { self.time = time }
    }

    /// A page was written back, which has moved the backing file's time.
    mutating func wroteBack() { wasWrittenBack = true }
}
