// The IDs that a check has seen, in bounded memory: sorted runs go to a file without a name, and are merged at the end.

internal import BackingStore
internal import HostSystem
internal import KeyFiles
internal import ProtectedVolume
internal import VolumeFormat

/// One object and its ID.
struct SeenID: Comparable {
    /// The bytes of one in the file.
    static let length = 24

    private let first: UInt64
    private let second: UInt64
    /// The object's inode number.
    let inode: UInt64

    init(_ id: ObjectID, inode: UInt64) {
        let bytes = id.bytes
        self.init(bytes.span, at: 0, inode: inode)
    }

    init(_ bytes: Span<UInt8>, at offset: Int) {
        self.init(bytes, at: offset, inode: bytes.littleEndian(at: offset + ObjectID.length))
    }

    private init(_ bytes: Span<UInt8>, at offset: Int, inode: UInt64) {
        first = bytes.littleEndian(at: offset)
        second = bytes.littleEndian(at: offset + 8)
        self.inode = inode
    }

    func store(into bytes: inout MutableSpan<UInt8>, at offset: Int) {
        bytes.storeLittleEndian(first, at: offset)
        bytes.storeLittleEndian(second, at: offset + 8)
        bytes.storeLittleEndian(inode, at: offset + ObjectID.length)
    }

    static func < (one: SeenID, other: SeenID) -> Bool {
        (one.first, one.second, one.inode) < (other.first, other.second, other.inode)
    }

    func hasID(of other: SeenID) -> Bool { first == other.first && second == other.second }
}

/// Collects IDs, and finds those that several objects have. Thread-safe.
///
/// Memory: `room` IDs of 24 bytes while collecting, twice that while merging, and 40 bytes for each full run.
final class SeenIDs: Sendable {
    private struct State {
        var recent: [SeenID] = []
        var file: BackingFile?
        /// The length of each run in the file, in IDs.
        var runs: [Int] = []
        /// The error that ended the collecting.
        var failure: Errno?
    }

    private let state = Lock(State())
    private let room: Int
    private let scratch: BackingDirectory?

    /// - Parameters:
    ///   - room: the number of IDs that are kept in memory.
    ///   - scratch: a directory for the file, once there are more.
    init(room: Int, scratch: BackingDirectory?) {
        self.room = room
        self.scratch = scratch
    }

    /// The limit of inode numbers that `duplicates` returns.
    static let mostDuplicates = 65536

    /// Notes an object's ID.
    func note(_ id: ObjectID, inode: UInt64) {
        state.withLock { state in
            guard state.failure == nil else { return }
            state.recent.append(SeenID(id, inode: inode))
            guard state.recent.count >= room else { return }
            do throws(Errno) { try spill(&state) } catch { end(error, &state) }
        }
    }

    /// The inode numbers of the objects that have the same ID as another one, each with a number that those of one ID share.
    /// Hard links are one object. Nothing is noted afterwards.
    func duplicates() throws(Errno) -> [UInt64: Int] {
        try state.withLock { (state: inout State) throws(Errno) -> [UInt64: Int] in
            if let failure = state.failure { throw failure }
            defer { state = State() }
            var found = Found()
            guard state.file != nil else {
                state.recent.sort()
                for id in state.recent { found.add(id) }
                return found.groups
            }
            if !state.recent.isEmpty { try spill(&state) }
            try merge(state, into: &found)
            return found.groups
        }
    }

    private func end(_ error: Errno, _ state: inout State) {
        state = State()
        state.failure = error
    }

    private func open() throws(Errno) -> BackingFile {
        guard let scratch else { throw .ENOSYS }
        let name = BackingName.temporary()
        let file = try scratch.createFile(name, mode: 0o600)
        try scratch.unlink(name)
        return file
    }

    private func spill(_ state: inout State) throws(Errno) {
        let file = if let file = state.file { file } else { try open() }
        state.file = file
        state.recent.sort()
        var bytes = [UInt8](repeating: 0, count: state.recent.count * SeenID.length)
        var raw = bytes.mutableSpan
        for (index, id) in state.recent.enumerated() { id.store(into: &raw, at: index * SeenID.length) }
        let start = state.runs.reduce(0, +) * SeenID.length
        try file.write(bytes.span, at: UInt64(start))
        state.runs.append(state.recent.count)
        state.recent.removeAll(keepingCapacity: true)
    }

    /// Compares each ID with the one before.
    private struct Found {
        var last: SeenID?
        var groups: [UInt64: Int] = [:]
        private var lastGroup = 0
        private var isInGroup = false

        init() {}

        mutating func add(_ id: SeenID) {
            defer { last = id }
            guard let last, last.hasID(of: id) else {
                isInGroup = false
                return
            }
            guard last.inode != id.inode, groups.count < SeenIDs.mostDuplicates else { return }
            if !isInGroup { lastGroup += 1 }
            isInGroup = true
            groups[last.inode] = lastGroup
            groups[id.inode] = lastGroup
        }
    }

    /// A part of a run in memory.
    private struct Cursor {
        var ids: ArraySlice<SeenID>
        /// The position of the next part in the file, in IDs, and the run's end.
        var next: Int
        let end: Int
    }

    private func merge(_ state: State, into found: inout Found) throws(Errno) {
        guard let file = state.file else { return }
        let part = max(room / max(state.runs.count, 1), 1)
        // A heap by each cursor's first ID.
        var heap: [Cursor] = []
        var start = 0
        for count in state.runs {
            var cursor = Cursor(ids: [], next: start, end: start + count)
            start += count
            try Self.fill(&cursor, part, file)
            heap.append(cursor)
        }
        for index in heap.indices.reversed() { Self.sink(index, &heap) }
        while var cursor = heap.first, let id = cursor.ids.first {
            found.add(id)
            heap[0].ids = []
            cursor.ids.removeFirst()
            if cursor.ids.isEmpty { try Self.fill(&cursor, part, file) }
            if cursor.ids.isEmpty {
                let last = heap.removeLast()
                if heap.isEmpty { return }
                heap[0] = last
            } else {
                heap[0] = cursor
            }
            Self.sink(0, &heap)
        }
    }

    private static func fill(_ cursor: inout Cursor, _ part: Int, _ file: BackingFile) throws(Errno) {
        let count = min(part, cursor.end - cursor.next)
        guard count > 0 else { return }
        var bytes = [UInt8](repeating: 0, count: count * SeenID.length)
        var raw = bytes.mutableSpan
        guard try file.read(into: &raw, at: UInt64(cursor.next * SeenID.length)) == bytes.count else { throw .EIO }
        let span = bytes.span
        cursor.ids = (0..<count).map { SeenID(span, at: $0 * SeenID.length) }[...]
        cursor.next += count
    }

    private static func sink(_ start: Int, _ heap: inout [Cursor]) {
        var at = start
        while true {
            var least = at
            for child in [2 * at + 1, 2 * at + 2] where child < heap.count {
                if let one = heap[child].ids.first, let other = heap[least].ids.first, one < other { least = child }
            }
            if least == at { return }
            heap.swapAt(at, least)
            at = least
        }
    }
}
