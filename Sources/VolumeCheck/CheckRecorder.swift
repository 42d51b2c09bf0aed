// Records how far a check has come, and knows what an interrupted one has done.
//
// A continued check walks all names again: it reads every record, header and attribute, and opens every file. It passes over
// only the blocks of a file that the earlier one has read without a finding, and that nothing has changed since it began. So
// it reports the same findings as a whole one, and no list of findings is kept.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles
internal import Keybag
internal import ProtectedVolume
internal import VolumeFormat

/// The record of one check. Thread-safe.
final class CheckRecorder: Sendable {
    private struct State: Sendable {
        var record: CheckRecord
        /// Why the record does not advance any more. It cannot be continued then.
        var failure: CheckUnrecorded?
        /// Whether the record has its last position.
        var isFinal = false
        /// The next time to write, on the monotonic clock.
        var due: UInt64
    }

    private let file: CheckRecordFile
    private let states: StateFileStore
    private let store: BackingDirectory
    private let interval: UInt64
    private let found: Result<CheckRecord, CheckRestart>
    /// What an interrupted check has done; nil if this one reads everything.
    private let earlier: CheckRecord?
    private let state: Lock<State>
    /// The last thread that wrote a record, or still does. No worker waits for the disk.
    private let writer = Lock<BackgroundThread?>(nil)

    /// The recorder of a check that begins now.
    static func make(
        _ volume: Volume, _ states: StateFileStore?, _ options: CheckOptions
    ) throws(CheckUnrecorded) -> CheckRecorder {
        if options.isQuick { throw .quick }
        guard let states, let terms = try? CheckTerms(volume, states, options) else { throw .noState }
        // Others may set times by another clock, or not at all.
        guard volume.rootDirectory.keepsOrder else { throw .store }
        let file = CheckRecordFile(states)
        guard options.resumes else { return CheckRecorder(volume, file, states, options, terms, .failure(.noRecord)) }
        let bytes: [UInt8]?
        do throws(Errno) { bytes = try file.load() } catch { throw .file(error) }
        let earlier = judge(bytes, volume.content.keys.volumeID, terms)
        return CheckRecorder(volume, file, states, options, terms, earlier)
    }

    private static func judge(
        _ bytes: [UInt8]?, _ volumeID: VolumeID, _ terms: CheckTerms
    ) -> Result<CheckRecord, CheckRestart> {
        guard let bytes else { return .failure(.noRecord) }
        guard let record = CheckRecord(parsing: bytes.span), record.volumeID == volumeID else {
            return .failure(.damaged)
        }
        if record.terms.options != terms.options { return .failure(.otherOptions) }
        if record.terms.keys != terms.keys { return .failure(.otherKeys) }
        if record.terms.store != terms.store { return .failure(.otherStore) }
        if record.terms.state != terms.state { return .failure(.changed) }
        let now = WallClock.seconds
        if record.written > now || record.started > now { return .failure(.clock) }
        return .success(record)
    }

    private init(
        _ volume: Volume, _ file: CheckRecordFile, _ states: StateFileStore, _ options: CheckOptions,
        _ terms: CheckTerms, _ found: Result<CheckRecord, CheckRestart>
    ) {
        self.file = file
        self.states = states
        self.found = found
        earlier = try? found.get()
        store = volume.rootDirectory
        interval = options.recordInterval
        // The kernel's times of files are up to some milliseconds behind.
        let record = earlier ?? CheckRecord(volume.content.keys.volumeID, terms, started: WallClock.seconds - 1)
        state = Lock(State(record: record, due: monotonicNanoseconds() &+ interval))
    }

    /// When the check began that this one continues, in seconds since 1970, or why it continues none.
    var start: Result<Int64, CheckRestart> { found.map(\.started) }

    // MARK: what was done

    /// Whether an object was last changed before the first of these checks began.
    func isSettled(_ status: Status) -> Bool {
        earlier.map { status.changed.seconds < $0.started } ?? false
    }

    /// What an interrupted check has done below the root.
    var earlierPart: WalkedPart { earlier.map { .before($0.position.path[...]) } ?? .none }

    /// Whether an interrupted check has read a file without a finding. The caller knows that it has done the file (`WalkedPart`).
    ///
    /// A file with several names may have been left out at this one, because a worker had begun it at another.
    func hasRead(_ status: Status) -> Bool {
        guard let earlier, status.links == 1, isSettled(status) else { return false }
        return !earlier.findings.contains(status.inode)
    }

    // MARK: recording

    /// Notes a finding in a file's content, before the file's item ends.
    func note(findingIn inode: UInt64) {
        state.withLock { state in
            guard !state.isFinal else { return }
            state.record.findings.insert(inode)
            // The last written record does not know of it, and is before it.
            if state.record.findings.count > CheckRecord.mostFindings { state.isFinal = true }
        }
    }

    /// Ends the advance: some of the work is not done from now on. The first call counts.
    func stop(at place: () -> WalkPlace) {
        state.withLock { state in
            guard !state.isFinal else { return }
            Self.advance(to: place(), &state)
            state.isFinal = true
        }
    }

    /// Has the record written if it is time to.
    func writeIfDue(_ place: () -> WalkPlace) {
        let now = monotonicNanoseconds()
        let isDue = state.withLock { state in
            guard !state.isFinal, state.failure == nil, now >= state.due else { return false }
            state.due = .max
            Self.advance(to: place(), &state)
            return true
        }
        guard isDue else { return }
        // No other one starts before this one has set the time.
        // Under the lock, so that `end` finds this thread and not the one before.
        let isStarted = writer.withLock { writer in
            writer = BackgroundThread(name: "check record") { [self] in
                write()
                state.withLock { $0.due = monotonicNanoseconds() &+ interval }
            }
            return writer != nil
        }
        if !isStarted { state.withLock { $0.due = now &+ interval } }
    }

    /// Ends the recording. The workers have ended.
    /// - Returns: why the check cannot be continued. Nil if it can, or has ended.
    func end(isInterrupted: Bool) -> CheckUnrecorded? {
        // The thread refers to this object, so this object must not keep it.
        writer.withLock { $0.take() }?.join()
        if isInterrupted { write() } else { file.remove() }
        return state.withLock { $0.failure }
    }

    private static func advance(to place: WalkPlace, _ state: inout State) {
        if place.isBehind(state.record.position), place.path.count <= CheckRecord.longestPosition {
            state.record.position = place
        }
    }

    private func write() {
        var (record, isFull) = state.withLock { ($0.record, $0.record.findings.count > CheckRecord.mostFindings) }
        if isFull { return }
        let now = WallClock.seconds
        if now < record.written { return fail(.clock) }
        record.written = now
        // What was read from the page cache must be on the disk too, or a power cut could undo it.
        do throws(Errno) { try store.synchronizeStore() } catch {
            // A store that is read-only has nothing to write.
            if error != .EROFS { return fail(.sync(error)) }
        }
        guard let epochs = try? CheckTerms.state(states) else { return fail(.noState) }
        record.terms.state = epochs
        do throws(Errno) { try file.save(record.serialized()) } catch { return fail(.file(error)) }
        state.withLock { $0.record.written = now }
    }

    /// The written record, if there is one, does not know of the rest of this check, which is right, or must not be used.
    private func fail(_ reason: CheckUnrecorded) {
        if reason == .clock { file.remove() }
        state.withLock { $0.failure = reason }
    }
}

extension CheckTerms {
    fileprivate init(_ volume: Volume, _ states: StateFileStore, _ options: CheckOptions) throws(VolumeError) {
        let changes = (options.mends ? 1 : 0) | (options.repairs ? 2 : 0) | (options.quarantines ? 4 : 0) as UInt32
        let root = try volume.below { () throws(Errno) in try volume.rootDirectory.status() }
        let identity = options.storeIdentity + Array(" \(root.inode)".utf8)
        self.init(
            options: changes, keys: UInt32(volume.content.keys.state.rawValue), store: Self.hash(identity),
            state: try Self.state(states))
    }

    /// The state file's part of it.
    /// - Throws: if there is no state file, too.
    fileprivate static func state(_ states: StateFileStore) throws(VolumeError) -> UInt64 {
        guard let layout = try states.load()?.layout else { throw .noEntry }
        return hash(Array("\(layout.toleratesEverything) \(layout.highestEpoch) \(layout.openEpochs)".utf8))
    }
}
