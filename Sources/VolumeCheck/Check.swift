// Checks a whole volume that is not mounted. Verifies everything that the keys allow, in parallel.
//
// Without repair a check changes only what a mount would change too: it mends files that a crash has left unfinished
// (rules R0 and R5), and restores records that were set aside. If it has seen everything and found no error, it then
// closes the epochs that ended badly. Repair removes nothing. It moves obstacles away, and keeps a damaged file beside
// its copy. Neither changes what a newer version has made, nor the entries of a directory with a newer record.

package import BackingStore
internal import FileContents
package import KeyFiles
package import Keybag
internal import HostSystem
internal import ProtectedVolume
internal import VolumeFormat

/// One run of a check, as one of its workers sees it.
package final class Check: Sendable {
    /// An item of the queue.
    enum Item: Sendable {
        case directory(Place?, ObjectPaths, Visit?, walked: TreePath?)
        /// The names of a directory behind one, in the order of their bytes.
        case names(Visit, after: EntryName?)
        /// A part of these names. The rest goes back to the queue.
        case entries(Visit, ArraySlice<EntryName>)
        /// A long file, which the worker that has it shares with others.
        case content(ContentReading)
    }

    /// What leaves a check in the order of the tree.
    enum Report: Sendable {
        case finding(Finding)
        case repair(Repair)
    }

    struct Progress: Sendable {
        var summary = CheckSummary()
        var progress = CheckProgress()
        /// The hard-linked files whose other names are still to come, with their number.
        var links: [InodeKey: UInt64] = [:]
        /// The damaged files of which a name was moved away, while other names may be left.
        var moved: [InodeKey: MovedFile] = [:]
        /// The files with late records that were not seen.
        var owed: Set<ObjectID> = []
        var evidence: [UInt64: [CrashEvidence]] = [:]
        var restored: Set<UInt64> = []
        /// The files that are older than this machine has seen them.
        var older: Set<UInt64> = []
        /// The directories whose record this run has made.
        var rebuilt: Set<UInt64> = []
        /// For directories without records, the strongest class that something in them proves.
        var proven: [InodeKey: ProtectionClass?] = [:]
        /// For directories that may have to be moved away, whether a newer version has made something in them.
        var holdsNewer: [InodeKey: Bool] = [:]
        /// The overflow objects to which something refers; nil if there are too many to remember.
        var overflow: Set<ObjectID>? = []
        /// What a session that ended with a crash may have left.
        var leftovers = CrashLeftovers()
        /// Whether there are reserved names that this version does not know, or that have no meaning where they are.
        var hasUnknownNames = false
        /// Whether a newer version has made the root's record.
        var hasNewerRoot = false
        /// The late files that are not applied, or only in part.
        var late: [(number: UInt64, notice: LateNotice)] = []
    }

    let volume: Volume
    let options: CheckOptions
    var mends: Bool { options.mends }
    /// Whether to repair. If a newer version has made the root's record, nothing is repaired, because the volume's default class
    /// is not known, and no lost+found directory can be made.
    var repairs: Bool { options.repairs && !state.withLock { $0.hasNewerRoot } }
    /// Whether to move away what cannot be decrypted.
    var quarantines: Bool { options.quarantines && repairs }
    let quarantine: Quarantine
    /// The files that a quick check looks at; nil for a complete one.
    let scope: QuickScope?
    let state: Lock<Progress>
    let seen: SeenIDs
    /// Nil if the check cannot be continued after an interruption.
    let recorder: CheckRecorder?
    private let queue: CheckQueue<Item, Report>
    private let tell: @Sendable (CheckProgress) -> Void
    /// What this worker has found in its item, and the work that it has found.
    private let taken = Lock<(reports: [Report], items: [Item])>(([], []))
    /// The number of its item.
    private let current = Lock<CheckQueue<Item, Report>.Number>(0)

    private init(
        _ volume: Volume, _ state: Lock<Progress>, _ options: CheckOptions, _ scope: QuickScope?, _ seen: SeenIDs,
        _ quarantine: Quarantine, _ recorder: CheckRecorder?, _ queue: CheckQueue<Item, Report>,
        tell: @escaping @Sendable (CheckProgress) -> Void
    ) {
        self.volume = volume
        self.state = state
        self.options = options
        self.tell = tell
        self.scope = scope
        self.seen = seen
        self.quarantine = quarantine
        self.recorder = recorder
        self.queue = queue
    }

    /// The same check for another worker.
    private func another() -> Check {
        Check(volume, state, options, scope, seen, quarantine, recorder, queue, tell: tell)
    }

    /// Checks the volume in `directory`.
    ///
    /// - Parameters:
    ///   - keys: the keys. Only an unlocked volume is verified completely; before first unlock, only the classes that
    ///     the device key opens.
    ///   - states: the file that lists the open epochs. If nil, the check closes none.
    ///   - options: the allowed changes.
    ///   - progress: called now and then, from any thread.
    ///   - repaired: called with each repair, from any thread, one at a time with findings.
    ///   - report: called with each finding, from any thread, one at a time.
    /// - Throws: `.refused(.EBUSY)` if the volume is mounted; the store's error if the root cannot be read.
    package static func run(
        directory: BackingDirectory, keys: KeyRing, states: StateFileStore?,
        options: CheckOptions = CheckOptions(),
        progress: @escaping @Sendable (CheckProgress) -> Void = { _ in },
        repaired: @escaping @Sendable (Repair) -> Void = { _ in },
        report: @escaping @Sendable (Finding) -> Void
    ) throws(VolumeError) -> CheckSummary {
        var volumeOptions = VolumeOptions()
        volumeOptions.isReadOnly = !options.mends
        let state = Lock(Progress())
        try Volume.claim(directory, volumeOptions)
        let volume = try Volume(directory: directory, keys: keys, state: states, options: volumeOptions) { notice in
            switch notice {
            case .crashEvidence(let found):
                state.withLock { state in
                    if state.evidence[found.inode, default: []].count < Self.mostPlaces {
                        state.evidence[found.inode, default: []].append(found)
                    }
                }
            case .restoredRecord(let inode): state.withLock { _ = $0.restored.insert(inode) }
            case .older(let inode): state.withLock { _ = $0.older.insert(inode) }
            case .late(let number, let notice): state.withLock { $0.late.append((number, notice)) }
            default: break
            }
        }
        let scope = options.isQuick ? QuickScope(volume.content.epochs, states, directory) : nil
        state.withLock { state in
            state.owed = volume.late.owedFiles
            state.summary.quick = scope?.reach
            state.leftovers = CrashLeftovers(of: volume, states)
        }
        if let scope { options.decided(scope.reach) }
        if scope?.reach == .nothing { return state.withLock { $0.summary } }
        let queue = CheckQueue<Item, Report>(.directory(nil, ObjectPaths(), nil, walked: nil)) { found in
            switch found {
            case .finding(let finding): report(finding)
            case .repair(let repair): repaired(repair)
            }
        }
        var recorder: CheckRecorder?
        var unrecorded: CheckUnrecorded?
        do throws(CheckUnrecorded) { recorder = try .make(volume, states, options) } catch { unrecorded = error }
        if options.resumes { options.begins(recorder?.start ?? .failure(.unrecorded(unrecorded ?? .noState))) }
        let check = Check(
            volume, state, options, scope, SeenIDs(room: options.idsInMemory, scratch: options.scratch),
            Quarantine(root: volume.rootDirectory), recorder, queue, tell: progress)
        // Measures in parallel with the workers, until they end. This thread is one of them.
        let measuring = options.measures ? BackgroundThread(name: "measure") { check.measure() } : nil
        let others = (1..<max(options.threads, 1)).map { _ in
            BackgroundThread(name: "check") { check.another().work() }
        }
        check.another().work()
        for thread in others + [measuring] { thread?.join() }
        var summary = try check.finish(states)
        if let recorder { unrecorded = recorder.end(isInterrupted: summary.isInterrupted) }
        if summary.isInterrupted { summary.unrecorded = unrecorded }
        for found in check.taken.withLock({ $0.reports }) {
            switch found {
            case .finding(let finding): report(finding)
            case .repair(let repair): repaired(repair)
            }
        }
        return summary
    }

    /// The limit of places with crash damage that are kept of one file.
    private static let mostPlaces = 4096

    // MARK: the queue

    /// Processes items until the queue is empty and no worker can add one.
    private func work() {
        while let (number, item) = queue.next() {
            current.withLock { $0 = number }
            // After an interruption the rest of the queue is dropped.
            if mayGoOn() {
                switch item {
                case .directory(let place, let paths, let above, let walked):
                    look(atDirectory: place, paths, above, walked: walked)
                case .names(let visit, let name): list(visit, after: name)
                case .entries(let visit, let names):
                    let (some, rest) = part(of: names)
                    // Another worker continues with them now.
                    if !rest.isEmpty { queue.add(.entries(visit, rest), behind: number) }
                    look(at: some, in: visit)
                case .content(let reading): reading.read(for: self)
                }
            }
            let taken = taken.withLock { taken in
                defer { taken = ([], []) }
                return taken
            }
            queue.end(number, taken.reports, taken.items)
            recorder?.writeIfDue { place }
        }
    }

    /// The first place that is not done.
    private var place: WalkPlace {
        switch queue.first {
        case .directory(_, _, _, let walked): WalkPlace(path: walked?.whole ?? [])
        case .names(let visit, let name):
            name.map { WalkPlace.behind(visit.walked(to: $0).whole) } ?? visit.place
        case .entries(let visit, let names):
            names.first.map { WalkPlace(path: visit.walked(to: $0).whole) } ?? visit.place
        // Its file is done.
        case .content(let reading): reading.place
        case nil: .end
        }
    }

    /// False when the check must end.
    func mayGoOn() -> Bool {
        if options.mayGoOn() { return true }
        // The caller leaves out work, so the record must not advance when its item ends.
        recorder?.stop { place }
        state.withLock { $0.summary.isInterrupted = true }
        return false
    }

    /// Whether all items are done.
    var isDone: Bool { queue.isDone }

    /// Whether this worker's item has found more work.
    var hasMoreItems: Bool { taken.withLock { !$0.items.isEmpty } }

    /// Queues an item behind this worker's, and behind those queued before.
    func add(_ item: Item) {
        taken.withLock { $0.items.append(item) }
    }

    /// Lets workers that have nothing before it read parts of a long file. Its own worker waits for them.
    func ask(toHelp reading: ContentReading) {
        let number = current.withLock { $0 }
        // At the end of the check nobody else is left.
        if queue.isDone { return }
        for _ in 1..<max(options.threads, 2) { queue.add(.content(reading), behind: number) }
    }

    // MARK: reporting

    func found(
        _ kind: Finding.Kind, _ severity: Finding.Severity, _ paths: ObjectPaths, page: UInt64? = nil,
        crashEvidence: CrashEvidence.Kind? = nil, errno: Errno? = nil, object: Damage? = nil
    ) {
        state.withLock { state in
            switch severity {
            case .error: state.summary.errors += 1
            case .crash: state.summary.crashes += 1
            case .note: state.summary.notes += 1
            case .newer: state.summary.newer += 1
            }
        }
        let finding = Finding(
            kind: kind, severity: severity, path: paths.visible, backingPath: paths.backing, page: page,
            crashEvidence: crashEvidence, errno: errno?.rawValue, object: object)
        taken.withLock { $0.reports.append(.finding(finding)) }
    }

    /// Reports an error of the volume as a finding.
    func found(_ error: VolumeError, _ paths: ObjectPaths, page: UInt64? = nil) {
        switch error {
        case .locked: break
        case .store(let errno), .refused(let errno): found(.store, .error, paths, page: page, errno: errno)
        case .damaged(let damage): found(Finding.Kind(damage), .error, paths, page: page)
        case .stateFile(let failure): found(.store, .error, paths, page: page, errno: failure.errno)
        case .newer(let object): found(.newer, .newer, paths, page: page, object: object)
        }
    }

    /// Notes an ID. At the end objects with the same one are reported.
    func noteID(_ id: ObjectID, _ node: Node) {
        seen.note(id, inode: node.inode)
        state.withLock { if !$0.owed.isEmpty { $0.owed.remove(id) } }
    }

    /// Reports a repair, and the number of errors that it has repaired.
    func did(_ repair: Repair, settling errors: Int, _ change: (inout CheckSummary) -> Void = { _ in }) {
        state.withLock { state in
            state.summary.repaired += errors
            change(&state.summary)
        }
        taken.withLock { $0.reports.append(.repair(repair)) }
    }

    /// Counts an object that was checked.
    func count(_ change: (inout CheckSummary) -> Void) {
        let progress = state.withLock { state in
            change(&state.summary)
            state.progress.objects += 1
            return state.progress
        }
        tell(progress)
    }

    /// Counts a file whose content an interrupted check has verified.
    func count(readBefore bytes: UInt64) {
        state.withLock { state in
            state.summary.filesReadBefore += 1
            state.summary.bytesReadBefore += bytes
        }
    }

    /// Counts content that verified.
    func count(bytes: UInt64) {
        let progress = state.withLock { state in
            state.summary.bytes += bytes
            state.progress.bytes += bytes
            return state.progress
        }
        tell(progress)
    }

    /// Advances the progress by backing bytes, and by a weight for each object.
    func advance(_ amount: UInt64) {
        state.withLock { $0.progress.done &+= amount }
    }

    /// Sets the totals of the progress.
    func expect(_ total: CheckProgress.Total) {
        state.withLock { $0.progress.total = total }
    }

    // MARK: the end

    private func finish(_ states: StateFileStore?) throws(VolumeError) -> CheckSummary {
        moveOtherNames()
        let hasSeenAll = scope.map { $0.reach == .everything } ?? true
        if hasSeenAll { tellDuplicates() }
        tellLateFiles()
        tellOrphanOverflow(hasSeenAll: hasSeenAll)
        var summary = state.withLock { $0.summary }
        if mends, hasSeenAll, summary.isWhole, !volume.late.hasPassedOver, !mayHaveLeftOut() {
            // Every file was opened and received its late records. The remaining records have no file.
            for number in try volume.late.drop(recordsOf: state.withLock { $0.owed }) {
                found(.staleLate, .note, ObjectPaths(backing: LateFileName.bytes(of: number)))
            }
            summary.notes = state.withLock { $0.summary.notes }
        }
        if mends { try volume.close() }
        guard mends, let states, summary.isWhole else { return summary }
        try volume.content.epochs.closeEndedBadly()
        if hasSeenAll { try states.endToleration() }
        summary.closedEpochs = true
        return summary
    }
}

extension Finding.Kind {
    init(_ damage: Damage) {
        switch damage {
        case .header: self = .header
        case .wrap: self = .wrap
        case .block: self = .block
        case .length: self = .length
        case .zeroPage: self = .zeroPage
        case .missingHeader: self = .missingHeader
        case .name: self = .name
        case .companion: self = .companion
        case .record: self = .record
        case .missingRecord: self = .missingRecord
        case .symlink: self = .symlink
        case .attribute: self = .attribute
        case .kind: self = .kind
        case .late: self = .lateRecords
        case .older: self = .older
        }
    }
}
