// Power cuts under a whole volume: names, records, links, attributes and the keybag, and the recovery by mount and check.

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

/// A sequence of operations on a tree.
struct TreeSequence: Hashable, Sendable, CustomStringConvertible {
    var steps: [TreeStep]
    var description: String { "\(steps)" }

    var simpler: [TreeSequence] {
        steps.indices.map { index in
            var one = self
            one.steps.remove(at: index)
            return one
        }
    }
}

/// Runs sequences on volumes and cuts the power under them; for one thread.
final class TreeSimulation {
    static let long = String(repeating: "q", count: 220)

    let keys: TestKeys
    private(set) var states = 0
    private let ring: KeyRing
    private let bags: [Keybag]
    private let base: MemoryStore.Moment
    private let baseStates: MemoryStore.Moment
    private let model: TreeModel

    init() throws {
        keys = try TestKeys.shared.get()
        ring = try keys.ring()
        try keys.unlock(ring)
        var bags = [keys.bag]
        for number in 1...2 {
            bags.append(try Self.next(bags[number - 1], keys, "passphrase \(number)"))
        }
        self.bags = bags
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try KeybagFile.create(keys.bag.bytes, in: store.root)
        try it.mkdir("d")
        try it.mkdir("e")
        // A record that cannot be made again by anybody.
        try it.setClass("e", "B")
        for path in TreeModel.firstFiles { try it.write(path, TreeModel.firstText(path)) }
        try it.volume.close()
        // Learns the versions of the files.
        let again = try TestVolume(keys, store.root, it.states, ring: ring)
        _ = try again.look()
        try again.volume.close()
        store.makeDurable()
        it.states.makeDurable()
        base = store.moment
        baseStates = it.states.moment
        model = .first(defaultOfE: .completeUnlessOpen)
    }

    private static func next(_ bag: Keybag, _ keys: TestKeys, _ text: String) throws -> Keybag {
        let passphrase = Array(text.utf8)
        let secret = try SecretBytes(copying: passphrase.span)
        guard let slot = bag.slots.first(where: { $0.kind == .passphrase })?.id else { throw Errno.ENOENT }
        return try keys.keys.withLock { all throws(KeybagError) in
            try keys.device.withLock { device throws(KeybagError) in
                try bag.changingPassphrase(
                    ofSlot: slot, to: secret, deviceKey: device, cost: Argon2Parameters(passes: 1, memory: 8 << 20),
                    keys: all)
            }
        }
    }

    /// Whether the steps can all be done.
    func isPossible(_ sequence: TreeSequence) -> Bool {
        var model = model
        return sequence.steps.allSatisfy { model.apply($0) }
    }

    /// Tries `sequence`; throws the first outcome that breaks a promise.
    func run(_ sequence: TreeSequence, _ depth: SimulationDepth, seed: UInt64 = 1) throws {
        let moments = try perform(sequence, onlyLast: depth.onlyLast)
        var number = 0
        for (place, (moment, other, model)) in moments.enumerated() {
            for outcome in moment.outcomes(atMost: depth.outcomes, seed: seed &+ UInt64(place)) {
                for otherOutcome in other.outcomes(atMost: 8, seed: seed) {
                    guard let store = moment.store(outcome, skippingSame: true),
                        let states = other.store(otherOutcome, skippingSame: true)
                    else { continue }
                    self.states += 1
                    number += 1
                    do {
                        let cutsAgain = depth.recoverEvery > 0 && number % depth.recoverEvery == 0
                        try recover(store, states, model, cutsAgain: cutsAgain, depth, seed)
                    } catch {
                        throw SimulationFailure(
                            description: "\(sequence)\n  cut when: \(moment.describe(outcome))\n  \(error)")
                    }
                }
            }
        }
    }

    private func open(_ store: MemoryStore, _ states: MemoryStore) throws -> TestVolume {
        store.clearRecords(recording: false)
        states.clearRecords(recording: false)
        var options = VolumeOptions()
        // No power cut makes a file older than the table of seen versions says.
        options.refusesOlder = true
        return try TestVolume(keys, store.root, states, options: options, ring: ring)
    }

    /// Does the steps: the moments to cut at, of the volume and of the state file's store, and what may be found.
    private func perform(
        _ sequence: TreeSequence, onlyLast: Bool
    ) throws -> [(MemoryStore.Moment, MemoryStore.Moment, TreeModel)] {
        guard let store = base.store(base.outcome(0)), let states = baseStates.store(baseStates.outcome(0)) else {
            return []
        }
        let it = try open(store, states)
        store.keepMoments(with: states)
        states.keepMoments(with: store)
        var model = model
        var moments: [(MemoryStore.Moment, MemoryStore.Moment, TreeModel)] = []
        for (number, step) in sequence.steps.enumerated() {
            let (before, otherBefore) = (store.momentCount, states.momentCount)
            let earliest = model.earliest
            let texts = model.texts
            guard model.apply(step) else { return [] }
            do { try it.perform(step, number + 1, bags) } catch {
                throw SimulationFailure(description: "\(sequence)\n  \(step) fails: \(error)")
            }
            if onlyLast, number < sequence.steps.count - 1 { continue }
            // What a sync at the end of the step promises does not hold in the middle of it.
            var during = model
            during.earliest = earliest
            during.texts.merge(texts) { $0.union($1) }
            for (file, texts) in during.texts where !texts.contains("") && model.trees[number].objects[file] == nil {
                during.texts[file]?.insert("")
            }
            moments += store.jointMoments[before...].map { ($0, $1, during) }
            moments += states.jointMoments[otherBefore...].map { ($1, $0, during) }
        }
        moments.append((store.moment, states.moment, model))
        return moments
    }

    // MARK: afterwards

    /// Mounts, compares, checks and mends, works on, and cuts the power in the middle of all that.
    private func recover(
        _ store: MemoryStore, _ states: MemoryStore, _ model: TreeModel, cutsAgain: Bool, _ depth: SimulationDepth,
        _ seed: UInt64
    ) throws {
        if cutsAgain {
            store.keepMoments(with: states)
            states.keepMoments(with: store)
        }
        let it = try open(store, states)
        let found = try it.look()
        try compare(found, model, it)
        try it.volume.close()
        let before = (try it.mend(), found)
        guard try open(store, states).look() == before.1 else {
            throw SimulationFailure(description: "the check changed what is there")
        }
        let again = try it.mend()
        guard before.0.isEmpty, again.isEmpty else {
            throw SimulationFailure(description: "the check finds \(before.0), and then \(again)")
        }
        let moments =
            store.jointMoments + states.jointMoments.map { ($1, $0) }
            + (cutsAgain ? [(store.moment, states.moment)] : [])
        if !cutsAgain || depth.recoverEvery == 1 { try clear(open(store, states)) }
        for (place, (moment, other)) in moments.enumerated() {
            for outcome in moment.outcomes(atMost: depth.recoveryOutcomes, seed: seed &+ UInt64(place)) {
                guard let second = moment.store(outcome, skippingSame: true),
                    let secondStates = other.store(other.outcome(0), skippingSame: true)
                else { continue }
                self.states += 1
                do {
                    guard try open(second, secondStates).look() == found else {
                        throw SimulationFailure(description: "it is another tree")
                    }
                } catch {
                    throw SimulationFailure(
                        description: "recovery cut when: \(moment.describe(outcome))\n  \(error)")
                }
            }
        }
    }

    private func compare(_ found: FoundTree, _ model: TreeModel, _ it: TestVolume) throws {
        let bag: Keybag
        do { bag = try Keybag(parsing: try KeybagFile.read(in: it.directory)) } catch {
            throw SimulationFailure(description: "no keybag: \(error)")
        }
        let state = try StateFileStore(directory: it.states.root, volumeID: bag.volumeID).load()
        do { _ = try StateFile.check(bag, against: state) } catch {
            throw SimulationFailure(description: "the keybag is refused: \(error)")
        }
        let number = bags.firstIndex { $0.bytes == bag.bytes }
        var objections: [String] = []
        for (place, tree) in model.trees.enumerated() where place >= model.earliest {
            if tree.keybag == number, model.allows(found, tree) { return }
            objections.append("\(tree.names.keys.sorted())")
        }
        throw SimulationFailure(
            description: "found \(found.lines.sorted { $0.key < $1.key }), keybag \(number ?? -1); may be \(objections)"
        )
    }

    /// Everything can be used and removed again, and then nothing is left.
    private func clear(_ it: TestVolume) throws {
        let paths = try it.look().lines.keys.filter { !$0.isEmpty }.sorted { $0.count > $1.count }
        for path in paths + [""] where try it.node(path).kind == .directory {
            let probe = path.isEmpty ? "probe" : "\(path)/probe"
            try it.write(probe, "probe")
            guard try it.read(probe) == "probe" else { throw SimulationFailure(description: "the probe is lost") }
            try it.unlink(probe)
        }
        // Deepest first.
        for path in paths.sorted(by: { $0.split(separator: "/").count > $1.split(separator: "/").count }) {
            if try it.node(path).kind == .directory { try it.rmdir(path) } else { try it.unlink(path) }
        }
        guard try it.list("").isEmpty else { throw SimulationFailure(description: "not everything can be removed") }
    }
}
