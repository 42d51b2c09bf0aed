// The late records of one lock. They are sealed while the keys are gone, kept in memory, and written as soon as the store
// responds.

internal import BackingStore
internal import CLibrary
internal import KeyFiles
internal import Keybag
internal import HostSystem
internal import VolumeFormat

/// One record and its position in its late file.
struct LateEntry: Sendable {
    let header: LateRecordHeader
    /// The position of the record's first byte.
    let position: UInt64
    /// The MAC of the record before, and its own.
    let previous: InlineArray<32, UInt8>
    let mac: InlineArray<32, UInt8>
    /// The whole record, until it is written to the late file.
    var bytes: [UInt8]?
}

/// The records of a lock in order, and their file in the store. The first write of a record creates the file.
///
/// Lock order: `writing`, then `state`. `writing` is held across the store's I/O, `state` only for a moment. Sealing takes
/// only `state`. So if the store hangs, late writes continue until `roomBytes` of records wait.
final class LateLog: Sendable {
    private struct State {
        var entries: [LateEntry] = []
        var lastMAC: InlineArray<32, UInt8>
        var end = UInt64(LateFileHeader.length)
        /// The next record's running number.
        var next: UInt64 = 0
        /// The number of entries in the store's file. The bytes of later entries are in memory.
        var written = 0
        var waitingBytes = 0
        /// An unlock has taken the records. A later write is an ordinary one.
        var isClosed = false
        /// The error of the last attempt to write the waiting records.
        var failure: VolumeError?
        var doneRecords: UInt32 = 0
    }
    private struct Writing {
        var file: BackingFile?
        var hasHeader = false
        /// The number of entries that are durable.
        var synced = 0
        var isListed = false
        /// The error of a sync that failed.
        var failure: VolumeError?
    }

    /// The limit of bytes that wait for the store. Beyond it late writes wait.
    private static let roomBytes = 128 << 20

    let key: LateKey
    private let root: BackingDirectory
    private let states: StateFileStore?
    /// Whether other mounts use the store. They take a late file that nobody holds for one whose mount has died.
    private let isShared: Bool
    private let state: Lock<State>
    private let writing: Lock<Writing>
    private let hasRoom = Condition()

    /// An empty log for a new lock.
    init(key: LateKey, root: BackingDirectory, states: StateFileStore?, isShared: Bool) {
        self.key = key
        self.root = root
        self.states = states
        self.isShared = isShared
        state = Lock(State(lastMAC: key.firstMAC))
        writing = Lock(Writing())
    }

    /// A log found in the store, with the records that verify.
    init(
        key: LateKey, root: BackingDirectory, states: StateFileStore?, isShared: Bool, file: BackingFile,
        found: LateFileContent
    ) {
        self.key = key
        self.root = root
        self.states = states
        self.isShared = isShared
        var state = State(lastMAC: found.lastMAC)
        state.entries = found.entries
        state.end = found.end
        state.next = found.next
        state.written = found.entries.count
        state.isClosed = true
        state.doneRecords = found.done
        self.state = Lock(state)
        writing = Lock(Writing(file: file, hasHeader: true, synced: found.entries.count, isListed: true))
    }

    var number: UInt64 { key.number }
    private var name: EntryName { BackingName.known(LateFileName.bytes(of: number)) }
    /// Whether records wait for the store.
    var hasUnwritten: Bool { state.withLock { $0.written < $0.entries.count } }
    /// Whether a record is for `file`.
    func hasRecords(of file: ObjectID) -> Bool { state.withLock { $0.entries.contains { $0.header.fileID == file } } }
    /// The number of data records so far.
    var count: Int { state.withLock { $0.entries.count } }

    // MARK: making records

    /// Seals `data` as a record. Returns false when an unlock has closed the log. The write is then an ordinary one.
    ///
    /// Waits while too many bytes wait for a store that does not respond. Fails if the store has refused to write them.
    func append(
        _ data: Span<UInt8>, to file: ObjectID, at offset: UInt64, _ keys: KeyRing
    ) throws(VolumeError) -> Bool {
        let _: Void? = state.wait(on: hasRoom) { state in
            state.isClosed || state.waitingBytes < Self.roomBytes || state.failure != nil ? () : nil
        }
        let time = WallClock.nanoseconds
        return try state.withLock { (state: inout State) throws(VolumeError) -> Bool in
            guard !state.isClosed else { return false }
            if state.waitingBytes >= Self.roomBytes, let failure = state.failure { throw failure }
            let header = LateRecordHeader(
                dataLength: data.count, index: state.next, fileID: file, offset: offset,
                seconds: Int64(time / 1_000_000_000), nanoseconds: UInt32(time % 1_000_000_000))
            let bytes = try record(header, after: state.lastMAC) { (sealed) throws(VolumeError) in
                do throws(KeyError) {
                    try key.seal(data, header, into: &sealed)
                } catch { throw .store(.ENOMEM) }
            }
            add(header, bytes, to: &state)
            return true
        }
    }

    /// Builds a record from header, sealed data and MAC.
    private func record(
        _ header: LateRecordHeader, after previous: InlineArray<32, UInt8>,
        _ seal: (inout MutableSpan<UInt8>) throws(VolumeError) -> Void
    ) throws(VolumeError) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: header.recordLength)
        var span = bytes.mutableSpan
        header.store(into: &span)
        if !header.sealedRange.isEmpty {
            var sealed = span._mutatingExtracting(header.sealedRange)
            try seal(&sealed)
        }
        let mac = key.mac(after: previous, span.span.extracting(0..<header.authenticatedLength))
        span.copy(mac.span, to: header.authenticatedLength)
        return bytes
    }

    private func add(_ header: LateRecordHeader, _ bytes: [UInt8], to state: inout State) {
        let mac: InlineArray<32, UInt8> = bytes.span.inline(at: header.authenticatedLength)
        state.entries.append(
            LateEntry(header: header, position: state.end, previous: state.lastMAC, mac: mac, bytes: bytes))
        state.lastMAC = mac
        state.end += UInt64(bytes.count)
        state.next += 1
        state.waitingBytes += bytes.count
    }

    /// Entries from `first` on, for an unlock. If `closing` is set and no such entry exists, this closes the log.
    func take(from first: Int, closing: Bool = false) -> [LateEntry] {
        let taken = state.withLock { state in
            if closing, first == state.entries.count { state.isClosed = true }
            return Array(state.entries[min(first, state.entries.count)...])
        }
        hasRoom.broadcast()
        return taken
    }

    // MARK: the store

    /// Writes the waiting records. The state file lists the lock before its late file is made.
    func persist() throws(VolumeError) {
        try writing.withLock { (writing: inout Writing) throws(VolumeError) in try persistOrTell(&writing) }
    }

    private func persistOrTell(_ writing: inout Writing) throws(VolumeError) {
        do throws(VolumeError) {
            try persist(&writing)
            state.withLock { $0.failure = nil }
        } catch {
            state.withLock { $0.failure = error }
            hasRoom.broadcast()
            throw error
        }
    }

    private func persist(_ writing: inout Writing) throws(VolumeError) {
        while true {
            let waiting = state.withLock { Array($0.entries[$0.written...]) }
            guard !waiting.isEmpty else { return }
            let file = try open(&writing)
            for entry in waiting {
                guard let bytes = entry.bytes else { continue }
                do throws(Errno) {
                    try file.write(bytes.span, at: entry.position)
                } catch { throw .store(error) }
                state.withLock { state in
                    state.entries[state.written].bytes = nil
                    state.written += 1
                    state.waitingBytes -= bytes.count
                }
                hasRoom.broadcast()
            }
        }
    }

    /// Makes every record durable. fsync of a file with late records waits for this.
    func synchronize() throws(VolumeError) {
        try writing.withLock { (writing: inout Writing) throws(VolumeError) in
            try persistOrTell(&writing)
            if let failure = writing.failure { throw failure }
            let written = state.withLock { $0.written }
            guard writing.synced < written, let file = writing.file else { return }
            do throws(Errno) {
                try file.synchronize(dataOnly: false)
                if writing.synced == 0 { try root.synchronize() }
            } catch {
                // After an error the store drops the pages, and the next sync would succeed without them.
                writing.failure = .store(error)
                throw .store(error)
            }
            writing.synced = written
        }
    }

    private func open(_ writing: inout Writing) throws(VolumeError) -> BackingFile {
        if let file = writing.file, writing.hasHeader { return file }
        if isShared { return try openShared(&writing) }
        if !writing.isListed {
            try list()
            writing.isListed = true
        }
        do throws(Errno) {
            let file = if let file = writing.file { file } else { try root.createOwnFile(name, mode: 0o600) }
            writing.file = file
            // A check leaves it alone while this mount lives. A store without locks has no other mount.
            try? file.setLock(.exclusive, LockRange.content, waits: false)
            let header = key.header.bytes
            try file.write(header.span, at: 0)
            writing.hasHeader = true
            return file
        } catch { throw .store(error) }
    }

    /// Makes the file while other mounts may look at it. It has its lock and its header before it has its name, so that
    /// no mount takes it for one that is left over.
    private func openShared(_ writing: inout Writing) throws(VolumeError) -> BackingFile {
        if let file = writing.file {
            // It has its name. Only the list may have failed.
            try listAgain(&writing)
            return file
        }
        let temporary = BackingName.temporary()
        let file: BackingFile
        do throws(Errno) { file = try root.createOwnFile(temporary, mode: 0o600) } catch { throw .store(error) }
        do throws(VolumeError) {
            do throws(Errno) {
                try file.setLock(.exclusive, LockRange.content, waits: false)
                let header = key.header.bytes
                try file.write(header.span, at: 0)
            } catch { throw .store(error) }
            if !writing.isListed {
                try list()
                writing.isListed = true
            }
            do throws(Errno) {
                try root.placing(temporary, at: name, mode: .noReplace) {
                    (try? file.status()).map { root.isObject(name, $0) } ?? false
                }
            } catch { throw .store(error) }
        } catch {
            try? root.unlink(temporary)
            throw error
        }
        writing.file = file
        try listAgain(&writing)
        return file
    }

    /// Lists the lock again if another mount has found no file, and has taken the lock from the list, before the file
    /// had its name. Afterwards no mount does (`unlist`).
    private func listAgain(_ writing: inout Writing) throws(VolumeError) {
        try list()
        writing.hasHeader = true
    }

    /// Takes a lock without late file from the state file's list.
    ///
    /// - Parameter looking: looks for the file again, with the list's lock. So a mount that is just making the file
    ///   lists it again afterwards.
    /// - Returns: false if it has a file by now.
    static func unlist(
        _ number: UInt64, _ root: BackingDirectory, _ states: StateFileStore?, looking: Bool
    ) throws(VolumeError) -> Bool {
        var isMissing = true
        try states?.update { (state) throws(VolumeError) in
            if looking {
                do throws(Errno) {
                    _ = try root.status(of: BackingName.known(LateFileName.bytes(of: number)))
                    isMissing = false
                    return
                } catch { if error != .ENOENT { throw .store(error) } }
            }
            state?.layout.openLocks.removeAll { $0.number == number }
        }
        return isMissing
    }

    private func list() throws(VolumeError) {
        guard let states else { return }
        var hasRoom = true
        try states.update { state in
            guard let known = state, !known.layout.openLocks.contains(where: { $0.number == number }) else { return }
            hasRoom = state?.layout.openLocks.count ?? 0 < StateFileLayout.maximumLocks
            guard hasRoom else { return }
            state?.layout.openLocks.append(.init(number: number))
            state?.layout.openLocks.sort { $0.number < $1.number }
        }
        guard hasRoom else { throw .store(.ENOSPC) }
    }

    /// A record's bytes, from memory or from the store. Bytes from the store are verified again, because the store may have
    /// changed them.
    func bytes(of entry: LateEntry) throws(VolumeError) -> [UInt8] {
        if let bytes = entry.bytes { return bytes }
        guard let file = writing.withLock({ $0.file }) else { throw .damaged(.late) }
        var bytes = [UInt8](repeating: 0, count: entry.header.recordLength)
        var span = bytes.mutableSpan
        let count: Int
        do throws(Errno) { count = try file.read(into: &span, at: entry.position) } catch { throw .store(error) }
        guard count == entry.header.recordLength, LateFileContent.isRecord(span.span, entry, key) else {
            throw .damaged(.late)
        }
        return bytes
    }

    // MARK: the end

    /// Records durably that a file has received its data. The records of other files still wait.
    func markDone(_ file: ObjectID) throws(VolumeError) {
        try writing.withLock { (writing: inout Writing) throws(VolumeError) in
            try persist(&writing)
            guard let backing = writing.file else { return }
            let (bytes, position) = try state.withLock {
                (state: inout State) throws(VolumeError) -> ([UInt8], UInt64) in
                let header = LateRecordHeader(doneWith: file, index: state.next)
                return (try record(header, after: state.lastMAC) { (_) throws(VolumeError) in }, state.end)
            }
            do throws(Errno) {
                // Drops the bytes after the last record that verifies.
                try backing.truncate(to: position)
                try backing.write(bytes.span, at: position)
                try backing.synchronize(dataOnly: false)
            } catch { throw .store(error) }
            let done = state.withLock { state in
                state.lastMAC = bytes.span.inline(at: bytes.count - LateRecordHeader.macLength)
                state.end = position + UInt64(bytes.count)
                state.next += 1
                state.doneRecords += 1
                return state.doneRecords
            }
            try states?.update { state in
                guard let index = state?.layout.openLocks.firstIndex(where: { $0.number == number }) else { return }
                state?.layout.openLocks[index].done = done
            }
        }
    }

    /// Marks all records as used, durably, and removes the file. Call it when every file has received its data.
    func finish() throws(VolumeError) {
        try writing.withLock { (writing: inout Writing) throws(VolumeError) in
            if writing.isListed {
                try states?.update { state in
                    guard let index = state?.layout.openLocks.firstIndex(where: { $0.number == number }) else { return }
                    state?.layout.openLocks[index].done = StateFileLayout.OpenLock.isUsed
                }
            }
            if writing.file != nil || writing.isListed { try Self.remove(number, root, states) }
            writing = Writing()
        }
    }

    /// Removes the file of a lock whose records are used, and then the lock from the state file. This order leaves no file
    /// that the state file does not list.
    static func remove(_ number: UInt64, _ root: BackingDirectory, _ states: StateFileStore?) throws(VolumeError) {
        do throws(Errno) {
            do throws(Errno) {
                try root.unlink(BackingName.known(LateFileName.bytes(of: number)))
                try root.synchronize()
            } catch { if error != .ENOENT { throw error } }
        } catch { throw .store(error) }
        try states?.update { state in state?.layout.openLocks.removeAll { $0.number == number } }
    }
}
