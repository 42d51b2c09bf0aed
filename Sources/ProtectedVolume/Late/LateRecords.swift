// The late records of a volume: seals writes that arrive while it is locked, and applies them after an unlock.

internal import BackingStore
internal import CLibrary
internal import FileContents
package import KeyFiles
internal import Keybag
internal import HostSystem
internal import SodiumKit
internal import Synchronization
package import VolumeFormat

/// Owns the log of the current lock. Knows the records that each file still has to receive, from this lock and from earlier
/// ones.
///
/// Lock order: `applying`, `state`, then the locks of `LateLog`. `applying` is held across the store's I/O, `state` only for
/// a moment. Opening records takes the KeyRing's shared side. So callers must not hold that lock.
package final class LateRecords: Sendable {
    private struct Owed: Sendable {
        let log: LateLog
        let entry: LateEntry
    }
    private struct State: Sendable {
        /// The log of the current lock.
        var current: LateLog?
        /// The number of entries of `current` in `owed`.
        var taken = 0
        var owed: [ObjectID: [Owed]] = [:]
        /// The logs with entries in `owed`, by number.
        var logs: [UInt64: LateLog] = [:]
        /// The highest number of a lock.
        var highest: UInt64 = 0
        /// The late files that this volume did not make.
        var refused: Set<UInt64> = []
        /// The late files that another living mount of a shared store has, or may be making.
        var passedOver: Set<UInt64> = []
    }

    private let root: BackingDirectory
    private let states: StateFileStore?
    private let keys: KeyRing
    private let isShared: Bool
    private let report: @Sendable (_ number: UInt64, LateNotice) -> Void
    private let state = Lock(State())
    private let applying = Lock(())
    /// Whether the late files of earlier mounts have been read.
    private let hasLoaded = Atomic(false)
    /// Whether one of the late files is newer. Class A then stays closed, and no late file is read again.
    private let hasNewer = Atomic(false)
    /// The number of files in `owed`. When it is 0, callers do not take a lock.
    private let owedCount = Atomic<Int>(0)

    init(
        root: BackingDirectory, states: StateFileStore?, keys: KeyRing, isShared: Bool,
        report: @escaping @Sendable (_ number: UInt64, LateNotice) -> Void
    ) {
        self.root = root
        self.states = states
        self.keys = keys
        self.isShared = isShared
        self.report = report
    }

    /// Whether files still have to receive records.
    var owes: Bool { owedCount.load(ordering: .acquiring) > 0 }

    // MARK: while locked

    /// Begins the log of a lock. Call it before the keys are wiped.
    func begin() throws(VolumeError) {
        let number = state.withLock { max($0.highest + 1, WallClock.nanoseconds / 1000) }
        guard number <= LateFileName.largest else { throw .store(.ENOSPC) }
        let key = try keys.withState { (held: borrowing HeldKeys) throws(VolumeError) -> LateKey in
            do throws(KeyError) { return try held.makeLateKey(number: number) } catch { throw VolumeError(error) }
        }
        let log = LateLog(key: key, root: root, states: states, isShared: isShared)
        state.withLock { state in
            state.current = log
            state.taken = 0
            state.highest = number
        }
    }

    /// The log of the current lock; nil while unlocked.
    var current: LateLog? { state.withLock { $0.current } }

    /// Makes every record durable, or every one of the late files with records for `file`. What waits for others says nothing
    /// of this one.
    func synchronize(recordsOf file: ObjectID? = nil) throws(VolumeError) {
        let logs = state.withLock { state in [state.current].compactMap { $0 } + Array(state.logs.values) }
            .filter { log in file.map { log.hasRecords(of: $0) } ?? true }
        var failure: VolumeError?
        for log in logs {
            do throws(VolumeError) { try log.synchronize() } catch { failure = error }
        }
        if let failure { throw failure }
    }

    // MARK: at an unlock

    /// Reads the late files of earlier mounts, once. The keys must be in memory.
    func load() {
        guard !isLoaded, !hasNewer.load(ordering: .acquiring) else { return }
        do throws(VolumeError) {
            let listed = try listed()
            for (number, done) in listed { try load(number, done) }
            try freePlaces(of: listed.count)
            if !hasNewer.load(ordering: .acquiring) { hasLoaded.store(true, ordering: .releasing) }
            for number in LateFiles.numbers(in: root, atMost: LateFiles.mostEntries)
            where !listed.contains(where: { $0.number == number }) {
                report(number, .notListed)
            }
        } catch {
            report(0, .failed(error))
        }
    }

    /// Takes late files that this volume did not make from the state file's list before it is full of them. They stay in the
    /// store, and no later mount applies them.
    private func freePlaces(of count: Int) throws(VolumeError) {
        let refused = state.withLock { $0.refused }
        guard count > StateFileLayout.maximumLocks / 2, !refused.isEmpty else { return }
        try states?.update { $0?.layout.openLocks.removeAll { refused.contains($0.number) } }
    }

    /// Numbers and done records in ascending order, as the state file lists them. Without a state file, all late files in the
    /// root.
    func listed() throws(VolumeError) -> [(number: UInt64, done: UInt32)] {
        if let state = try states?.load() { return state.layout.openLocks.map { ($0.number, $0.done) } }
        return LateFiles.numbers(in: root).map { ($0, 0) }
    }

    private func load(_ number: UInt64, _ done: UInt32) throws(VolumeError) {
        let isKnown = state.withLock { $0.logs[number] != nil || $0.current?.number == number }
        // An earlier attempt read it and failed at another file, or it belongs to the current lock.
        if isKnown { return }
        if done == StateFileLayout.OpenLock.isUsed { return try LateLog.remove(number, root, states) }
        let read: LateReading
        do throws(Errno) {
            read = try LateReading(number, in: root, keys, .readWrite)
        } catch {
            switch error {
            case .ENOENT:
                if mayBegin(number) { return passOver(number) }
                // If another mount is just making it, it is looked at again.
                if isShared { passOver(number) }
                guard try LateLog.unlist(number, root, states, looking: isShared) else { return }
                return report(number, .missing)
            case .EROFS: throw .readOnly
            case .ELOOP, .EISDIR, .ENXIO: return report(number, .refused)
            default: throw .store(error)
            }
        }
        switch read {
        case .inUse: return passOver(number)
        // A crash or a full store prevented the header. The file has no record, and none was durable.
        case .empty:
            if mayBegin(number) { return passOver(number) }
            try LateLog.remove(number, root, states)
            return report(number, .missing)
        case .refused:
            state.withLock { _ = $0.refused.insert(number) }
            return report(number, .refused)
        case .newer: return foundNewer(number)
        case .whole: break
        }
        guard case .whole(let file, let key, let found) = read else { return }
        // The name alone does not count. An attacker could choose a number that leaves no room for the next lock.
        state.withLock { $0.highest = max($0.highest, number) }
        guard found.done >= done else { return report(number, .refused) }
        if found.hasRest { report(number, .cutOff) }
        let log = LateLog(
            key: key, root: root, states: states, isShared: isShared, file: file, found: found)
        guard !found.entries.isEmpty else { return try log.finish() }
        take(found.entries, of: log)
    }

    private func passOver(_ number: UInt64) { state.withLock { _ = $0.passedOver.insert(number) } }

    /// Whether another mount of a shared store has, or may be making, late files. They are looked at again at each unlock.
    package var hasPassedOver: Bool { state.withLock { !$0.passedOver.isEmpty } }

    /// Loads the late files that were passed over, if their mounts have ended without using them.
    private func loadPassedOver() {
        let numbers = state.withLock { state in
            defer { state.passedOver = [] }
            return state.passedOver
        }
        guard !numbers.isEmpty else { return }
        do throws(VolumeError) {
            for (number, done) in try listed() where numbers.contains(number) { try load(number, done) }
        } catch {
            state.withLock { $0.passedOver.formUnion(numbers) }
            report(0, .failed(error))
        }
    }

    /// Whether another mount of a shared store may be making this late file, because its number, which is a time in µs, is less
    /// than a minute old.
    private func mayBegin(_ number: UInt64) -> Bool {
        isShared && number &+ 60_000_000 > WallClock.nanoseconds / 1000
    }

    /// Keeps a late file that a newer version has made, and closes classes A and 7.
    private func foundNewer(_ number: UInt64) {
        state.withLock { $0.highest = max($0.highest, number) }
        hasNewer.store(true, ordering: .releasing)
        report(number, .newer)
    }

    /// Looks at the late files of a mount that applies none, because it is read-only.
    func look() {
        for (number, _) in (try? listed()) ?? [] {
            if case .newer? = try? LateReading(number, in: root, keys, .readOnly) {
                foundNewer(number)
            } else {
                report(number, .waits)
            }
        }
    }

    /// Refuses a file of class A or 7 while a late file is newer, because its records may concern the file.
    func requireKnown(for content: FileContent) throws(VolumeError) {
        if content.protectionClass.cutsOffHandles, hasNewer.load(ordering: .acquiring) { throw .newer(.late) }
    }

    private func take(_ entries: [LateEntry], of log: LateLog) {
        guard !entries.isEmpty else { return }
        state.withLock { state in
            for entry in entries { state.owed[entry.header.fileID, default: []].append(Owed(log: log, entry: entry)) }
            state.logs[log.number] = log
            owedCount.store(state.owed.count, ordering: .releasing)
        }
    }

    /// Writes the records of this lock and of earlier ones to the open files, and closes the log. Later writes are ordinary
    /// ones. Call it when the keys are in memory, and before requests are served again.
    ///
    /// - Parameter contents: returns the files that are open now. It is called again when more records have arrived.
    func unlock(_ contents: () -> [FileContent]) {
        applying.withLock { _ in
            if isLoaded { loadPassedOver() } else { load() }
            var done: [ObjectID: FileContent] = [:]
            repeat {
                collect()
                for (content, isDone) in write(to: contents()) { done[content.fileID] = isDone ? content : nil }
            } while !close()
            // This comes before the first ordinary write. A used record must not be applied again over newer data.
            end(Array(done.values))
        }
    }

    /// Collects the records that the current lock has made since the last call.
    private func collect() {
        guard let (log, taken) = state.withLock({ state in state.current.map { ($0, state.taken) } }) else { return }
        // Records that cannot be written now stay in memory. They are written to their file when it is opened.
        try? log.persist()
        let entries = log.take(from: taken)
        take(entries, of: log)
        state.withLock { $0.taken += entries.count }
    }

    /// Ends the log of the current lock, unless records have arrived since `collect`.
    private func close() -> Bool {
        guard let (log, taken) = state.withLock({ state in state.current.map { ($0, state.taken) } }) else {
            return true
        }
        guard log.take(from: taken, closing: true).isEmpty else { return false }
        state.withLock { $0.current = nil }
        return true
    }

    // MARK: applying

    /// Whether records wait for a file. Quick when no records wait at all.
    func owes(_ file: ObjectID) -> Bool {
        owes && state.withLock { $0.owed[file] != nil }
    }

    /// Whether late files have been read. Only then is a late file without waiting records an unknown one.
    package var isLoaded: Bool { hasLoaded.load(ordering: .acquiring) }

    /// Whether the late file of this name was read and has waiting records, or is another mount's.
    package func isOwed(_ name: [UInt8]) -> Bool {
        guard let number = LateFileName.number(of: name.span) else { return false }
        return state.withLock { $0.logs[number] != nil || $0.passedOver.contains(number) }
    }

    /// Applies a file's late records, durably, before the file is used. If that fails the file stays closed.
    /// - Returns: whether there were any.
    @discardableResult
    func apply(to content: FileContent) throws(VolumeError) -> Bool {
        let isKnown = hasLoaded.load(ordering: .acquiring) || !content.protectionClass.closesAfterLock
        guard !isKnown || owes(content.fileID) || content.owesLateRecords else { return false }
        // Class 7 may be open while what opens the records is not in memory.
        guard keys.withState({ $0.hasKey(.completeUnlessOpen) }) else { throw .locked(content.protectionClass) }
        return try applying.withLock { (_) throws(VolumeError) in
            if !isKnown {
                // The file's late records are not known. They would overwrite a write that came before them.
                load()
                try requireKnown(for: content)
                guard isLoaded || hasNewer.load(ordering: .acquiring) else { throw .damaged(.late) }
            }
            let results = write(to: [content])
            end(results.filter(\.isDone).map(\.content))
            if content.owesLateRecords { throw .store(.EIO) }
            return !results.isEmpty
        }
    }

    /// Writes each file's late records, and returns for each whether that succeeded. Files without records are left out.
    private func write(to contents: [FileContent]) -> [(content: FileContent, isDone: Bool)] {
        var results: [(content: FileContent, isDone: Bool)] = []
        for content in contents {
            guard let owed = state.withLock({ $0.owed[content.fileID] }) else {
                content.setOwesLateRecords(false)
                continue
            }
            content.setOwesLateRecords(true)
            do throws(VolumeError) {
                try write(owed, to: content)
                results.append((content, true))
            } catch {
                results.append((content, false))
                report(owed.last?.log.number ?? 0, .failed(error))
            }
        }
        return results
    }

    /// Counts the records of files as used, and opens the files.
    private func end(_ contents: [FileContent]) {
        guard !contents.isEmpty else { return }
        let counts = state.withLock { state in contents.flatMap { state.owed[$0.fileID] ?? [] } }
        do throws(VolumeError) {
            try markUsed(recordsOf: contents.map(\.fileID))
            for content in contents { content.setOwesLateRecords(false) }
            for (number, count) in Self.count(counts) { report(number, .applied(count)) }
        } catch {
            report(counts.last?.log.number ?? 0, .failed(error))
        }
    }

    private static func count(_ owed: [Owed]) -> [UInt64: Int] {
        owed.reduce(into: [:]) { counts, one in counts[one.log.number, default: 0] += 1 }
    }

    private func write(_ owed: [Owed], to content: FileContent) throws(VolumeError) {
        let before = try? content.backing.status()
        var buffer = try FileContent.largeBuffer(LateRecordHeader.maximumData, in: content.context)
        for one in owed {
            let header = one.entry.header
            let bytes = try one.log.bytes(of: one.entry)
            try buffer.withMutableBytes(count: header.dataLength) {
                (plain: inout MutableSpan<UInt8>) throws(VolumeError) in
                let isOpen = try keys.withState { (held: borrowing HeldKeys) throws(VolumeError) -> Bool in
                    do throws(KeyError) {
                        return try held.openLate(
                            bytes.span.extracting(header.sealedRange), header, of: one.log.key.header,
                            into: &plain)
                    } catch { throw VolumeError(error) }
                }
                guard isOpen else { throw .damaged(.late) }
                try content.write(plain.span, at: header.offset, access: .replay)
            }
        }
        try content.synchronize(dataOnly: false)
        guard let before, let last = owed.map({ Timestamp($0.entry.header) }).max(by: <) else { return }
        // The kernel has sent the time of these writes already, unless the daemon was killed before.
        let isTold = last < before.changed || last < before.modified
        try? content.renewTime(showing: isTold ? before.modified : last, after: before.stored)
    }

    /// Marks the records of `files` as used, so that they are not applied again.
    private func markUsed(recordsOf files: [ObjectID]) throws(VolumeError) {
        let finished = Set(files)
        let logs = state.withLock { state in
            Dictionary(grouping: finished.flatMap { state.owed[$0] ?? [] }, by: \.log.number).compactMapValues(
                \.first?.log)
        }
        for log in logs.values {
            let left = state.withLock { state in
                state.owed.filter { $0.value.contains { $0.log.number == log.number } }.keys
            }
            if finished.isSuperset(of: left) {
                try log.finish()
                state.withLock { $0.logs[log.number] = nil }
            } else {
                for file in left where finished.contains(file) { try log.markDone(file) }
            }
            state.withLock { state in
                for file in finished {
                    state.owed[file]?.removeAll { $0.log.number == log.number }
                    if state.owed[file]?.isEmpty == true { state.owed[file] = nil }
                }
                owedCount.store(state.owed.count, ordering: .releasing)
            }
        }
    }

    /// The files with records that wait for them.
    package var owedFiles: Set<ObjectID> { state.withLock { Set($0.owed.keys) } }

    /// Drops the records of files that no longer exist, after a complete check. Returns the numbers of their late files.
    package func drop(recordsOf files: Set<ObjectID>) throws(VolumeError) -> [UInt64] {
        try applying.withLock { (_) throws(VolumeError) -> [UInt64] in
            // A newer late file may say something of the others.
            guard !hasNewer.load(ordering: .acquiring) else { return [] }
            let gone = state.withLock { $0.owed.filter { files.contains($0.key) } }
            try markUsed(recordsOf: Array(gone.keys))
            return Set(gone.values.joined().map(\.log.number)).sorted()
        }
    }
}
