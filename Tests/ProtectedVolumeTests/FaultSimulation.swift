// One backing call of an operation fails, or all from one on: the right error at the right call, nothing lost, and
// everything works when the fault is gone.

import KeyFiles
import Keybag
import HostSystem
import Testing
import VolumeFormat

@testable import BackingStore
@testable import MemoryStore
@testable import FileContents
@testable import ProtectedVolume

/// An operation of a program while the store fails.
enum FaultyOperation: Hashable, Sendable, CustomStringConvertible {
    /// An operation on names.
    case tree(TreeStep)
    /// Open, a step, fsync, close on a file of several pages.
    case file(PowerCutStep)
    /// Open, read all, close.
    case read
    /// List every directory and read every file.
    case walk

    var isTree: Bool {
        if case .tree = self { return true }
        return false
    }

    var description: String {
        switch self {
        case .tree(let step): "\(step)"
        case .file(let step): "open, \(step), fsync, close"
        case .read: "open, read, close"
        case .walk: "walk"
        }
    }
}

/// A fault, as it strikes an operation.
struct FaultPlan: Hashable, Sendable, CustomStringConvertible {
    enum Place: Hashable, Sendable { case volume, stateFile }

    var place: Place
    /// The call that fails, counted from 1.
    var number: Int
    var call: StoreCall
    var error: Errno
    /// Calls of these sorts fail from then on, until the operation is over; empty: only that one.
    var lasting: Set<StoreCall> = []
    /// A short read or write.
    var bytes: Int?

    var description: String {
        let part = bytes.map { ", after \($0) bytes" } ?? ""
        let where_ = place == .stateFile ? " of the state file's directory" : ""
        return "call \(number)\(where_) (\(call.rawValue)) gives \(error)\(part)\(lasting.isEmpty ? "" : ", and so on")"
    }

    /// The errors that a store may return for a call of this sort.
    static func errors(of call: StoreCall) -> [Errno] {
        var errors: [Errno] = [.EIO, .ESTALE]
        if call.changes { errors += [.ENOSPC, .EDQUOT, .EROFS] }
        switch call {
        case .openFile, .openDirectory, .openNode, .list: errors += [.EMFILE, .ENOENT]
        case .createFile: errors += [.EMFILE]
        case .fsync, .fdatasync, .synchronizeDirectory: errors += [.ENOSPC, .EDQUOT]
        default: break
        }
        return errors
    }

    /// The calls that fail together where an error lasts.
    static func family(of error: Errno) -> Set<StoreCall> {
        Set(StoreCall.all.filter { errors(of: $0).contains(error) })
    }
}

extension StoreCall {
    static let all: [StoreCall] = [
        .read, .write, .truncate, .fdatasync, .fsync, .allocate, .punch, .seek, .status, .setMode, .setOwner, .setTimes,
        .getAttribute, .setAttribute, .removeAttribute, .listAttributes, .openFile, .openDirectory, .openNode,
        .createFile, .list, .readSymlink, .createDirectory, .createSymlink, .createSpecial, .rename, .link, .unlink,
        .removeDirectory, .synchronizeDirectory, .synchronizeStore, .statistics, .lock,
    ]
}

/// Runs operations over a failing store; for one thread.
final class FaultSimulation {
    private(set) var runs = 0
    private(set) var harmless = 0
    private let keys: TestKeys
    private let ring: KeyRing
    private let base: MemoryStore.Moment
    private let baseStates: MemoryStore.Moment
    private let model: TreeModel
    private let big = "big"
    private let content = (0..<13_000).map { PowerCutStep.byte(0, $0) }

    init() throws {
        keys = try TestKeys.shared.get()
        ring = try keys.ring()
        try keys.unlock(ring)
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.mkdir("d")
        try it.mkdir("e")
        for path in TreeModel.firstFiles { try it.write(path, TreeModel.firstText(path)) }
        try it.write(big)
        let node = try it.node(big)
        try it.volume.open(node, writable: true).put(content, at: 0)
        it.volume.release(node, writable: true)
        try it.volume.close()
        store.makeDurable()
        it.states.makeDurable()
        base = store.moment
        baseStates = it.states.moment
        model = .first()
    }

    private func mount() throws -> TestVolume {
        guard let store = base.store(base.outcome(0)), let states = baseStates.store(baseStates.outcome(0)) else {
            throw Errno.EIO
        }
        return try TestVolume(keys, store.root, states, ring: ring)
    }

    private func store(of it: TestVolume) -> MemoryStore {
        (it.directory as? MemoryDirectory)?.store ?? it.states
    }

    /// Every fault that can strike `operation`.
    func plans(_ operation: FaultyOperation) throws -> [FaultPlan] {
        let it = try mount()
        var plans: [FaultPlan] = []
        for place in [FaultPlan.Place.volume, .stateFile] {
            let store = place == .volume ? store(of: it) : it.states
            store.clearRecords()
        }
        var progress = Progress()
        try perform(operation, on: it, &progress)
        for place in [FaultPlan.Place.volume, .stateFile] {
            let store = place == .volume ? store(of: it) : it.states
            for (index, record) in store.records.enumerated() {
                for error in FaultPlan.errors(of: record.call) {
                    let plan = FaultPlan(place: place, number: index + 1, call: record.call, error: error)
                    plans.append(plan)
                    var lasting = plan
                    lasting.lasting = FaultPlan.family(of: error)
                    plans.append(lasting)
                }
                guard place == .volume else { continue }
                if record.call == .write, record.length > 4096 {
                    for error in [Errno.ENOSPC, .EIO] {
                        for lasting in [[], FaultPlan.family(of: error)] as [Set<StoreCall>] {
                            plans.append(
                                FaultPlan(
                                    place: place, number: index + 1, call: .write, error: error, lasting: lasting,
                                    bytes: 4096))
                        }
                    }
                }
                if record.call == .read {
                    plans.append(
                        FaultPlan(
                            place: place, number: index + 1, call: .read, error: .EIO, bytes: Int(record.length / 2)))
                }
            }
        }
        return plans
    }

    /// The progress of an operation.
    private struct Progress {
        /// The call that a program made last.
        var call = ""
        /// Strikes before that call.
        var strikes = 0
        var read: [UInt8]?
        var tree: FoundTree?
    }

    private func perform(_ operation: FaultyOperation, on it: TestVolume, _ progress: inout Progress) throws {
        let store = store(of: it)
        func call(_ name: String) {
            progress.call = name
            progress.strikes = store.strikes + it.states.strikes
        }
        switch operation {
        case .tree(let step):
            call("\(step)")
            try it.perform(step, 1)
        case .walk:
            call("walk")
            progress.tree = try it.look(ignoring: [big])
        case .file, .read:
            call("lookup")
            let node = try it.node(big)
            call("open")
            let content = try it.volume.open(node, writable: true)
            defer { it.volume.release(node, writable: true) }
            if case .file(let step) = operation {
                call("\(step)")
                try step.perform(on: content, self.content, number: 1)
                call("fsync")
                try it.volume.synchronize(node, dataOnly: false)
            } else {
                call("read")
                progress.read = try content.readAll()
            }
            call("close")
        }
    }

    /// Applies the fault to `operation`; throws a broken promise.
    func run(_ operation: FaultyOperation, _ plan: FaultPlan) throws {
        runs += 1
        let it = try mount()
        let (store, states) = (store(of: it), it.states)
        let target = plan.place == .volume ? store : states
        store.clearRecords(recording: false)
        target.inject(MemoryStore.Fault(countdown: plan.number, error: plan.error, bytes: plan.bytes))
        if !plan.lasting.isEmpty {
            // The same sorts of call fail after it.
            target.inject(
                MemoryStore.Fault(
                    calls: nil, countdown: plan.number, error: plan.error, lasts: true, only: plan.lasting))
        }
        var progress = Progress()
        var failure: (any Error)?
        do { try perform(operation, on: it, &progress) } catch { failure = error }
        let struck = store.strikes + states.strikes
        store.clearFaults()
        states.clearFaults()
        do {
            if let failure {
                guard struck > progress.strikes else {
                    throw SimulationFailure(
                        description: "\(progress.call) fails with \(failure), and no call below did")
                }
                try judge(failure, plan, operation)
            } else if plan.bytes == nil || plan.call == .write {
                harmless += 1
            }
            try checkRead(operation, plan, progress, failure)
            try checkAll(operation, it, isWhole: failure == nil, plan)
        } catch {
            throw SimulationFailure(
                description:
                    "\(operation), when \(plan):\n  \(failure.map { "\(progress.call) threw \($0); " } ?? "")\(error)")
        }
    }

    /// The program gets the store's error.
    private func judge(_ failure: any Error, _ plan: FaultPlan, _ operation: FaultyOperation) throws {
        let found: Errno? = (failure as? VolumeError)?.errno ?? failure as? Errno
        if found == plan.error { return }
        // The daemon's table is not the program's.
        if plan.error == .EMFILE, found == .ENFILE { return }
        // Something that is gone from below: the name is looked up again, or what hangs on it is missing.
        if plan.error == .ENOENT, [.ESTALE, .EIO, .ENOTEMPTY, .EEXIST].contains(found) { return }
        // A long name whose companion cannot be read is shown as undecryptable, and hides nothing else.
        if operation == .walk, plan.call == .readSymlink, found == .EIO { return }
        // A short read is a page that does not verify.
        if plan.bytes != nil, plan.call == .read, found == .EIO { return }
        throw SimulationFailure(description: "the error should be \(plan.error)")
    }

    /// A read is right or refused.
    private func checkRead(
        _ operation: FaultyOperation, _ plan: FaultPlan, _ progress: Progress, _ failure: (any Error)?
    ) throws {
        guard failure == nil else { return }
        if operation == .read, progress.read != content {
            throw SimulationFailure(description: "wrong bytes were read")
        }
    }

    /// Nothing else has suffered; the operation works now; and the volume is clean after the next mount.
    private func checkAll(
        _ operation: FaultyOperation, _ it: TestVolume, isWhole: Bool, _ plan: FaultPlan
    ) throws {
        var next = model
        if case .tree(let step) = operation { _ = next.apply(step) }
        let whole = next
        if !isWhole {
            // A program that has made a file and could not write to it has an empty one.
            for file in next.texts.keys where model.texts[file] == nil { next.texts[file]?.insert("") }
        }
        var wanted = try expect(it, next, operation, isWhole: isWhole)
        if !isWhole {
            // Again, where it has not happened after all.
            if !(operation.isTree && wanted.place == 1) {
                var progress = Progress()
                do { try perform(operation, on: it, &progress) } catch {
                    throw SimulationFailure(
                        description: "then \(progress.call) fails with \(error), with the fault gone")
                }
                wanted = try expect(it, whole, operation, isWhole: true)
            }
        }
        do { try it.volume.close() } catch { throw SimulationFailure(description: "unmount: \(error)") }
        let store = store(of: it)
        let again = try TestVolume(keys, store.root, it.states, ring: ring)
        guard try again.look(ignoring: [big]) == wanted.tree, try read(again) == wanted.bytes else {
            throw SimulationFailure(description: "after the next mount something else is there")
        }
        try again.volume.close()
        for turn in ["the check finds", "the second check finds"] {
            let found = try again.mend()
            guard found.isEmpty else { throw SimulationFailure(description: "\(turn) \(found)") }
        }
        let strict = try TestVolume(keys, store.root, it.states, options: strictly, ring: ring)
        guard try strict.look(ignoring: [big]) == wanted.tree, try read(strict) == wanted.bytes else {
            throw SimulationFailure(description: "after the check something else is there")
        }
    }

    private var strictly: VolumeOptions {
        var options = VolumeOptions()
        options.isStrict = true
        return options
    }

    private func read(_ it: TestVolume) throws -> [UInt8] {
        do throws(VolumeError) {
            return try readOnce(it)
        } catch {
            // As the kernel does: the name is looked up again.
            guard error == .stale else { throw error }
            return try readOnce(it)
        }
    }

    private func readOnce(_ it: TestVolume) throws(VolumeError) -> [UInt8] {
        let node = try it.node(big)
        let content = try it.volume.open(node, writable: false)
        defer { it.volume.release(node, writable: false) }
        return try content.readAll()
    }

    /// The present state. It is the state before or after the operation, or an allowed one between.
    private func expect(
        _ it: TestVolume, _ next: TreeModel, _ operation: FaultyOperation, isWhole: Bool
    ) throws -> (tree: FoundTree, bytes: [UInt8], place: Int) {
        let found: FoundTree
        let bytes: [UInt8]
        do {
            found = try it.look(ignoring: [big])
            bytes = try read(it)
        } catch { throw SimulationFailure(description: "something is unreadable: \(error)") }
        let last = next.trees.count - 1
        guard let place = (isWhole ? last...last : 0...last).first(where: { next.allows(found, next.trees[$0]) }) else {
            throw SimulationFailure(
                description:
                    "the tree is \(found.lines.sorted { $0.key < $1.key }), \(isWhole ? "and not done" : "neither")")
        }
        var versions = [content]
        if case .file(let step) = operation {
            let result = step.result(of: content, number: 1)
            versions.append(result)
            if case .replace = step { versions = [content] }
        }
        if isWhole {
            guard bytes == versions.last else {
                throw SimulationFailure(description: "the content is not what was written")
            }
        } else if let objection = PowerCutHistory(versions: versions, geometry: it.volume.content.geometry)
            .objection(to: bytes)
        {
            throw SimulationFailure(description: objection)
        }
        return (found, bytes, place)
    }
}
