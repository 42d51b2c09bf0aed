// The files that programs hold open, and the rights of each handle.

internal import FileContents
internal import HostSystem
internal import ProtectedVolume
internal import Synchronization
internal import VolumeFormat

/// The facts that are encoded in a handle's number, so that no table of handles is needed.
struct Handle: Sendable, Equatable {
    /// Data does not go through the page cache.
    var isDirect: Bool
    /// WRITE may use it.
    var isWritable: Bool
    /// Opened by the flusher, and not counted as a program's.
    var isFlushers: Bool
    /// The thread that opened it.
    var process: Int32
    /// Tells open files apart whose locks are kept here. 0 if the kernel keeps them.
    var serial: UInt32

    init(isDirect: Bool, isWritable: Bool, isFlushers: Bool = false, process: Int32, serial: UInt32 = 0) {
        self.isDirect = isDirect
        self.isWritable = isWritable
        self.isFlushers = isFlushers
        self.process = process
        self.serial = serial & 0xFF_FFFF
    }

    init(number: UInt64) {
        isDirect = number & 1 != 0
        isWritable = number & 2 != 0
        isFlushers = number & 4 != 0
        process = Int32(truncatingIfNeeded: number >> 8)
        serial = UInt32(number >> 40)
    }

    var number: UInt64 {
        UInt64(serial) << 40 | UInt64(UInt32(bitPattern: process)) << 8 | (isFlushers ? 4 : 0) | (isWritable ? 2 : 0)
            | (isDirect ? 1 : 0)
    }

    /// Whether writes through it may leave dirty pages.
    var isCachedWritable: Bool { isWritable && !isDirect }
}

/// A file with open handles.
final class OpenFile: Sendable {
    struct State: Sendable {
        var handles = ShortList<Handle>()
        var refusals = RefusalCount()
        /// The last look found no set-ID bits and no capabilities.
        var isFreeOfPrivileges = false
    }
    let node: Node
    let content: FileContent
    let state = InPlaceLock(State())
    private let untoldTime = AtomicLazyReference<UntoldTime>()
    /// The kernel has read or written a page of its cache since the file was opened.
    private let pagesMoved = Atomic(false)
    /// On a shared mount: the size of which the kernel was told last.
    let toldSize = Atomic<UInt64>(0)

    init(node: Node, content: FileContent) {
        self.node = node
        self.content = content
    }

    /// The time that the kernel does not know yet; nil if there was none. Most files have none, so it is made when it is noted.
    var time: UntoldTime? { untoldTime.load() }
    func makeTime() -> UntoldTime { untoldTime.load() ?? untoldTime.storeIfNil(UntoldTime(of: node)) }

    /// Called before such a page is read or written.
    func notePages() {
        if !pagesMoved.load(ordering: .relaxed) { pagesMoved.store(true, ordering: .releasing) }
    }

    /// Whether pages of the cache may be older than a direct write that has just ended.
    ///
    /// A page that shows something older was read before the write took the lock of its range here, and noted before that.
    var mayShowOldPages: Bool { pagesMoved.load(ordering: .acquiring) }

    var hasWriter: Bool { state.withLock { $0.handles.contains { $0.isWritable } } }
    var hasCachedWriter: Bool { state.withLock { $0.handles.contains { $0.isCachedWritable } } }

    /// Counts a refused READ. Returns how often in a row, almost without pause, that page was asked for.
    func countRefusal(at offset: UInt64) -> Int {
        state.withLock { $0.refusals.count(at: offset, now: monotonicNanoseconds()) }
    }
}

/// Refused READs of one page in a row, to delay programs that ask again at once.
struct RefusalCount: Sendable {
    /// A program that waits this long before it asks again is not slowed down.
    private static let pause: UInt64 = 100_000_000

    private var offset: UInt64 = 0
    private var count = 0
    /// CLOCK_MONOTONIC.
    private var last: UInt64 = 0

    /// Counts one more at `now`. Returns how many there were in a row.
    mutating func count(at offset: UInt64, now: UInt64) -> Int {
        let isAgain = offset == self.offset && nanoseconds(from: last, to: now) < Self.pause
        count = isAgain ? count + 1 : 1
        self.offset = offset
        last = max(last, now)
        return count
    }
}

/// The numbers of pages of classes A and 7 that the kernel wrote back. A pass of the lock sequence is quiet if that of its class
/// does not change.
final class WriteBackCount: Sendable {
    private let complete = Atomic<UInt64>(0)
    private let inactive = Atomic<UInt64>(0)

    /// Counts a page, before it is judged.
    func count(_ protectionClass: ProtectionClass?) {
        switch protectionClass {
        case .complete: complete.add(1, ordering: .relaxed)
        case .completeWhenUserInactive: inactive.add(1, ordering: .relaxed)
        default: break
        }
    }

    /// The number of pages of class 7, or of class A for any other.
    func number(of protectionClass: ProtectionClass) -> UInt64 {
        protectionClass == .completeWhenUserInactive
            ? inactive.load(ordering: .acquiring) : complete.load(ordering: .acquiring)
    }
}

/// All open files, by node number.
final class OpenFiles: Sendable {
    private let files = Lock([UInt64: OpenFile]())

    func file(_ number: UInt64) -> OpenFile? {
        files.withLock { $0[number] }
    }

    /// Counts a handle, after the content was retained for it.
    func add(_ handle: Handle, node: Node, content: FileContent) {
        files.withLock { files in
            let file = files[node.number] ?? OpenFile(node: node, content: content)
            files[node.number] = file
            file.state.withLock { $0.handles.append(handle) }
        }
    }

    /// Takes a handle away, before the content is released for it.
    /// - Returns: the file, and whether that was its last handle.
    func remove(_ handle: Handle, node number: UInt64) -> (file: OpenFile, wasLast: Bool)? {
        files.withLock { files in
            guard let file = files[number] else { return nil }
            let isEmpty = file.state.withLock { state in
                state.handles.removeFirst { $0 == handle }
                return state.handles.isEmpty
            }
            if isEmpty { files[number] = nil }
            return (file, isEmpty)
        }
    }

    var all: [OpenFile] { files.withLock { Array($0.values) } }

    /// Handles by class. A file whose class is not known counts as class A.
    var handlesByClass: [ProtectionClass: Int] {
        var counts: [ProtectionClass: Int] = [:]
        for file in all {
            counts[file.node.protectionClass ?? .complete, default: 0] += file.state.withLock { $0.handles.count }
        }
        return counts
    }
}
