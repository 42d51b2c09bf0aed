// Power cuts under one file: every outcome of every moment of a sequence of operations, and of the recovery after it.

import KeyFiles
import Keybag
import HostSystem
import SodiumKit
import Testing
import VolumeFormat

@testable import BackingStore
@testable import MemoryStore
@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

/// The file before the operations.
enum FileStart: Hashable, Sendable, CustomStringConvertible {
    /// Created in the mount that crashes.
    case new
    /// So many bytes, durable and of an earlier mount.
    case full(Int)
    /// The same with nothing but its ends written.
    case sparse(Int)

    var bytes: [UInt8] {
        switch self {
        case .new: []
        case .full(let count): (0..<count).map { PowerCutStep.byte(0, $0) }
        case .sparse(let count):
            (0..<count).map { $0 < 100 || $0 >= count - 100 ? PowerCutStep.byte(0, $0) : 0 }
        }
    }

    var description: String {
        switch self {
        case .new: "new file"
        case .full(let count): "file of \(count)"
        case .sparse(let count): "sparse file of \(count)"
        }
    }
}

/// A sequence of operations on one file.
struct FileSequence: Hashable, Sendable, CustomStringConvertible {
    var start: FileStart
    var steps: [PowerCutStep]

    var description: String { "\(start): \(steps)" }

    /// Sequences that are simpler and may fail in the same way.
    var simpler: [FileSequence] {
        var all = steps.indices.map { index in
            var one = self
            one.steps.remove(at: index)
            return one
        }
        if start != .new { all.append(FileSequence(start: .new, steps: steps)) }
        if start != .new, start != .full(0) { all.append(FileSequence(start: .full(0), steps: steps)) }
        return all.filter { !$0.steps.isEmpty }
    }
}

/// The part of each sequence that is tried.
struct SimulationDepth: Sendable {
    /// Outcomes of each moment: all where there are no more, else a sample.
    var outcomes = 64
    /// Every how manieth outcome is recovered and cut again; 0: none.
    var recoverEvery = 3
    /// Outcomes of each moment of a recovery.
    var recoveryOutcomes = 8
    /// Only the moments of the last step: those of the steps before belong to shorter sequences, tried as well.
    var onlyLast = false
}

/// The ways in which a recovery mends the middle of a file.
enum MiddleMending: CaseIterable {
    /// Before the first modification.
    case atOnce
    /// Not before the unmount.
    case never
    /// Some of it.
    case partly
    /// All of it, after the modification.
    case later
    /// The same where every hole of the store is long.
    case sparsely
}

/// An outcome of a power cut that breaks a promise.
struct SimulationFailure: Error, CustomStringConvertible {
    var description: String
}

/// The states allowed after a power cut now.
struct FilePromise {
    /// One for each file that had the name: at least one of them must fit.
    var histories: [PowerCutHistory]
    var classes: Set<ProtectionClass>
    /// Whether the name is durable.
    var mustExist: Bool

    func objection(to found: [UInt8]) -> String? {
        var objections: [String] = []
        for history in histories {
            guard let objection = history.objection(to: found) else { return nil }
            objections.append(objection)
        }
        return objections.joined(separator: ", or ")
    }
}

/// Runs sequences and cuts the power under them; for one thread.
final class FileSimulation {
    let keys: ContentKeys
    private(set) var states = 0
    private let file = BackingName.known(Array("f".utf8))
    private let beside = BackingName.known(Array("g".utf8))
    private var bases: [FileStart: MemoryStore.Moment] = [:]

    init(_ suite: CipherSuite) throws {
        keys = try ContentKeys(suite)
    }

    /// A store with the file as it was before the mount that crashes, all durable.
    private func base(_ start: FileStart) throws -> MemoryStore {
        keys.openEpochs.withLock { $0 = [] }
        let store = MemoryStore()
        store.clearRecords(recording: false)
        if start == .new { return store }
        if let moment = bases[start], let store = moment.store(moment.outcome(0)) {
            store.clearRecords(recording: false)
            return store
        }
        let context = keys.mount()
        let content = try store.create(in: context)
        let bytes = start.bytes
        if case .sparse = start {
            try content.put(Array(bytes.prefix(100)), at: 0)
            try content.put(Array(bytes.suffix(100)), at: bytes.count - 100)
        } else {
            try content.put(bytes, at: 0)
        }
        try content.settle()
        try context.epochs.close()
        store.makeDurable()
        bases[start] = store.moment
        return try base(start)
    }

    /// Tries `sequence`; throws the first outcome that breaks a promise.
    func run(_ sequence: FileSequence, _ depth: SimulationDepth, seed: UInt64 = 1) throws {
        let (moments, open) = try perform(sequence, onlyLast: depth.onlyLast)
        var number = 0
        for (place, (moment, table, promise)) in moments.enumerated() {
            keys.openEpochs.withLock { $0 = open }
            let reading = keys.mount(seen: table.latest.map { ($0, false) })
            for outcome in moment.outcomes(atMost: depth.outcomes, seed: seed &+ UInt64(place)) {
                guard let store = moment.store(outcome, skippingSame: true) else { continue }
                store.clearRecords(recording: false)
                states += 1
                number += 1
                do {
                    let seen = try look(at: store, promise, reading)
                    guard let seen, depth.recoverEvery > 0, number % depth.recoverEvery == 0 else { continue }
                    let turn = number / depth.recoverEvery
                    guard let table = table.latest else { continue }
                    try recover(
                        store, table, seen, Self.recoveries[turn % Self.recoveries.count],
                        MiddleMending.allCases[turn / Self.recoveries.count % MiddleMending.allCases.count], open,
                        depth, seed)
                } catch let failure as SimulationFailure {
                    throw SimulationFailure(
                        description: "\(sequence)\n  cut when: \(moment.describe(outcome))\n  \(failure)")
                }
            }
        }
    }

    /// Does the steps; the moments to cut at, what may be found there, and the epochs that are open then.
    private func perform(
        _ sequence: FileSequence, onlyLast: Bool
    ) throws -> ([(MemoryStore.Moment, MemoryStore.Moment, FilePromise)], [UInt32]) {
        let store = try base(sequence.start)
        let table = MemoryStore()
        table.clearRecords(recording: false)
        let context = keys.mount(seen: (table, true))
        var model = sequence.start.bytes
        var promise = FilePromise(
            histories: [PowerCutHistory(versions: [model], geometry: context.geometry)],
            classes: [.completeUntilFirstUserAuthentication], mustExist: sequence.start != .new)
        store.keepMoments(with: table)
        var moments: [(MemoryStore.Moment, MemoryStore.Moment, FilePromise)] = []
        var content = try sequence.start == .new ? store.create(in: context) : store.open(in: context)
        context.seen?.settle()
        for (number, step) in sequence.steps.enumerated() {
            let next = step.result(of: model, number: number + 1)
            let before = store.momentCount
            switch step {
            case .replace:
                promise.histories.append(PowerCutHistory(versions: [[], next], geometry: context.geometry))
                promise.classes.insert(.completeUntilFirstUserAuthentication)
            case .changeClass(let target): promise.classes.insert(target)
            default: promise.histories[promise.histories.count - 1].versions.append(next)
            }
            let during = promise
            if case .replace(_, let synced) = step {
                try content.settle()
                content = try replace(store, context, next, synced: synced)
                if synced { promise.histories[promise.histories.count - 1].versions = [next] }
            } else {
                let old = content.protectionClass
                try step.perform(on: content, model, number: number + 1)
                if step == .synchronize {
                    promise.histories[promise.histories.count - 1].versions = [next]
                    promise.mustExist = true
                    if promise.histories.count == 1 { promise.classes = [content.protectionClass] }
                }
                if case .changeClass(let target) = step, promise.histories.count == 1,
                    ClassChange.isTightening(from: old, to: target)
                {
                    promise.classes = [target]
                }
            }
            model = next
            if onlyLast, number < sequence.steps.count - 1 { continue }
            moments += store.jointMoments[before...].map { ($0, $1, during) }
        }
        try content.settle()
        moments.append((store.moment, table.moment, promise))
        return (moments, keys.openEpochs.withLock { $0 })
    }

    private func replace(
        _ store: MemoryStore, _ context: ContentContext, _ bytes: [UInt8], synced: Bool
    ) throws -> FileContent {
        let new = try store.create("g", in: context)
        try new.put(bytes, at: 0)
        if synced { try new.synchronize(dataOnly: false) }
        try new.settle()
        try store.root.rename(beside, to: store.root, file)
        return new
    }

    /// Opens and reads what was found; nil where there is no file.
    private func look(
        at store: MemoryStore, _ promise: FilePromise, _ context: ContentContext
    ) throws -> [UInt8]? {
        var seen: [UInt8]?
        for name in [file, beside] {
            let backing: BackingFile
            do throws(Errno) {
                backing = try store.root.openFile(name, .readWrite)
            } catch {
                if name == file, promise.mustExist { throw SimulationFailure(description: "the file is gone") }
                continue
            }
            do {
                let content = try FileContent.open(in: context, backing: backing)
                let found = try content.readAll()
                if let objection = promise.objection(to: found) { throw SimulationFailure(description: objection) }
                guard content.snapshot.pageZero == .missing || promise.classes.contains(content.protectionClass)
                else { throw SimulationFailure(description: "class \(content.protectionClass.letter)") }
                if name == file { seen = found }
            } catch let failure as SimulationFailure {
                throw failure
            } catch {
                throw SimulationFailure(description: "\(name) is unreadable: \(error)")
            }
        }
        return seen
    }

    /// First modifications after a crash; nil: what `fsck` does.
    private static let recoveries: [PowerCutStep?] = [
        .append(5000), .write(at: 4, count: 3), .truncate(30), .punch(0, 20_000), nil, .truncate(0),
        .changeClass(.complete), .truncate(9000), .write(at: 30_000, count: 10),
    ]

    /// A clean unmount while the middle waited, then another mount that is unmounted too: nothing is an error or lost, and a
    /// check mends the rest.
    private func goOn(_ moment: MemoryStore.Moment, _ expected: [UInt8], _ open: [UInt32], _ name: String) throws {
        guard let store = moment.store(moment.outcome(moment.count - 1)) else { return }
        store.clearRecords(recording: false)
        for mending in [MiddleMending.never, .partly, .later] {
            // The mount's own epochs are closed.
            keys.openEpochs.withLock { $0 = open }
            do {
                let context = mount(mending)
                let content = try store.open(in: context)
                guard try content.readAll() == expected else {
                    throw SimulationFailure(description: "\(name), unmounted: something else")
                }
                // Opened again in the same mount.
                try content.prepareToModify(.other)
                try content.settle()
                let again = try store.open(in: context)
                try again.prepareToModify(.other)
                try mend(again, mending)
                guard try again.readAll() == expected else {
                    throw SimulationFailure(description: "\(name), opened again: something else")
                }
                try again.settle()
            } catch let error as VolumeError {
                throw SimulationFailure(description: "\(name), unmounted, then \(mending): \(error)")
            }
        }
        keys.openEpochs.withLock { $0 = [] }
        do {
            guard try store.open(in: keys.mount(.nothing)).readAll() == expected else {
                throw SimulationFailure(description: "\(name), mended late: something else")
            }
        } catch let error as VolumeError {
            throw SimulationFailure(description: "\(name), mended late, strictly: \(error)")
        }
    }

    private func isClassChange(_ step: PowerCutStep?) -> Bool {
        if case .changeClass? = step { return true }
        return false
    }

    private func modify(_ content: FileContent, _ step: PowerCutStep?, _ seen: [UInt8]) throws(VolumeError) {
        if let step { try step.perform(on: content, seen, number: 99) } else { try content.repair() }
    }

    private func mount(_ mending: MiddleMending, _ table: MemoryStore? = nil) -> ContentContext {
        let seen = table.map { ($0, true) }
        if mending == .atOnce { return keys.mount(seen: seen) }
        return keys.mount(mendAtOnce: 0, mendStep: 1, mostSealedHoles: mending == .sparsely ? 0 : 4096, seen: seen)
    }

    private func mend(_ content: FileContent, _ mending: MiddleMending) throws(VolumeError) {
        switch mending {
        case .atOnce, .never: break
        case .partly: for _ in 0..<3 { _ = try content.mendSome() }
        case .later, .sparsely: while try content.mendSome() {}
        }
    }

    /// Modifies what was found, so that it is mended; looks at it; cuts the power at every moment of it.
    private func recover(
        _ crashed: MemoryStore, _ table: MemoryStore, _ seen: [UInt8], _ step: PowerCutStep?, _ mending: MiddleMending,
        _ open: [UInt32],
        _ depth: SimulationDepth, _ seed: UInt64
    ) throws {
        let name = "then \(step.map { "\($0)" } ?? "repair"), middle \(mending)"
        let expected = step?.result(of: seen, number: 99) ?? seen
        crashed.keepMoments(with: table)
        let context = mount(mending, table)
        let mended: [UInt8]
        let needsMore: Bool
        let isUnmended: Bool
        do {
            let content = try crashed.open(in: context)
            try modify(content, step, seen)
            try mend(content, mending)
            isUnmended = content.isUnmended
            mended = try content.readAll()
            // A class that the file has already is no modification.
            needsMore = content.needsRepair
            try content.settle()
        } catch { throw SimulationFailure(description: "\(name): \(error)") }
        if needsMore, !isClassChange(step), mending != .never, mending != .partly {
            throw SimulationFailure(description: "\(name): not mended")
        }
        guard mended == expected else { throw SimulationFailure(description: "\(name): not what was written") }
        let moments = crashed.jointMoments + [(crashed.moment, table.moment)]
        if isUnmended { try goOn(moments[moments.count - 1].0, expected, open, name) }
        // Mended for good: read with no tolerance, and nothing to report.
        keys.openEpochs.withLock { $0 = [] }
        let reported = keys.evidence.withLock { $0.count }
        do {
            let reopened = try crashed.open(in: keys.mount(needsMore ? .everything : .nothing))
            guard try reopened.readAll() == expected, needsMore || keys.evidence.withLock({ $0.count }) == reported
            else {
                throw SimulationFailure(description: "\(name): not mended for good")
            }
        } catch let error as VolumeError { throw SimulationFailure(description: "\(name), strictly: \(error)") }
        keys.evidence.withLock { $0 = [] }
        // Then cut in the middle of it, or of the next modification where the middle still waits.
        keys.openEpochs.withLock { $0 = open + context.epochs.own }
        let again = PowerCutHistory(versions: [seen, expected], geometry: context.geometry)
        for (place, (moment, table)) in moments.enumerated() {
            let reading = keys.mount(seen: table.latest.map { ($0, false) })
            for outcome in moment.outcomes(atMost: depth.recoveryOutcomes, seed: seed &+ UInt64(place)) {
                guard let second = moment.store(outcome, skippingSame: true) else { continue }
                states += 1
                do {
                    let found = try second.open(in: reading).readAll()
                    guard let objection = again.objection(to: found) else { continue }
                    throw SimulationFailure(description: objection)
                } catch {
                    throw SimulationFailure(
                        description: "\(name), cut again when: \(moment.describe(outcome))\n  \(error)")
                }
            }
        }
        keys.openEpochs.withLock { $0 = open }
    }
}

extension FileContent {
    /// The whole content in one read, for files up to a megabyte.
    func readAll() throws(VolumeError) -> [UInt8] {
        let count = Int(size)
        precondition(count <= FileContent.largestRequest)
        let length = FileContent.bufferLength(count: count)
        var buffer = try Self.largeBuffer(length, in: context)
        return try buffer.withMutableBytes(count: length) { (bytes: inout MutableSpan<UInt8>) throws(VolumeError) in
            let result = try read(into: &bytes, at: 0, count: count)
            let plain = bytes.span.extracting(result.range).copiedBytes()
            result.finish()
            return plain
        }
    }
}
