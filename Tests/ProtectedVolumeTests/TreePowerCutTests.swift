// Power cuts under names, records, links, attributes and the keybag: short sequences exhaustively, longer ones at
// random; every failure prints the shortest sequence that shows it.

import Glibc
import HostSystem
import Testing
import VolumeFormat

@testable import ProtectedVolume

@Suite(.serialized) struct TreePowerCutTests {
    private static let long = TreeSimulation.long
    static let steps: [TreeStep] = [
        .mkdir("n"), .mkdir("d/n"), .mkdir(long + "1"), .create("n", synced: false), .create("n", synced: true),
        .create(long + "1", synced: false), .create("d/" + long + "1", synced: true), .create("e/n", synced: false),
        .overwrite("x"), .unlink("x"), .unlink(long), .unlink("d/f"), .unlink("n"), .rmdir("e"), .rmdir("d"),
        .rmdir("n"),
        .rename("x", "n"), .rename("x", "d/f"), .rename("n", "x"), .rename("d/f", "n"), .rename("d", "e"),
        .rename("e", "d/n"), .rename("d", "n"), .rename("n", "e"), .rename(long, long + "1"), .rename("x", long + "1"),
        .rename(long, "e/n"), .exchange("x", "d"), .exchange("d/f", "n"), .link("x", "d/n"), .link("x", long + "1"),
        .symlink("n"), .symlink("d/n"), .unlink("d/n"), .rename("x", "d/n"),
        .setDefault("d", .complete), .setDefault("", .completeUnlessOpen), .setDefault("e", .none),
        .setAttribute("x"), .setAttribute("d"), .setAttribute("n"), .setLargeAttribute("x"), .setLargeAttribute("d"),
        .setLargeAttribute("n"), .reencrypt("x"), .replaceKeybag,
        .synchronize("x"), .synchronize("n"), .synchronizeRoot,
    ]

    private let effort = PowerCutEffort.current

    private func holds(
        _ simulation: TreeSimulation, _ sequence: TreeSequence, _ depth: SimulationDepth, _ seed: UInt64
    ) throws -> Bool {
        do {
            try simulation.run(sequence, depth, seed: seed)
            return true
        } catch {
            let (_, text) = shortest(sequence, "\(error)", simpler: \.simpler) { candidate in
                guard !candidate.steps.isEmpty, simulation.isPossible(candidate) else { return nil }
                var all = depth
                all.onlyLast = false
                all.outcomes = max(256, depth.outcomes)
                do { try simulation.run(candidate, all, seed: seed) } catch { return "\(error)" }
                return nil
            }
            Issue.record("\(text.replacing(Self.long, with: "long"))\n  seed \(seed)")
            return false
        }
    }

    /// All possible sequences of `length` steps in order, or a random choice of `limit`.
    private func exhaust(_ length: Int, limit: Int, _ depth: SimulationDepth) throws {
        let begin = monotonicNanoseconds()
        let simulation = try TreeSimulation()
        let all = (0..<length).reduce(1) { count, _ in count * Self.steps.count }
        var random = SeededGenerator(effort.seed)
        var tried = 0
        var done = 0
        while tried < all, done < limit {
            var number = limit >= all ? tried : Int.random(in: 0..<all, using: &random)
            var sequence = TreeSequence(steps: [])
            for _ in 0..<length {
                sequence.steps.append(Self.steps[number % Self.steps.count])
                number /= Self.steps.count
            }
            tried += 1
            guard simulation.isPossible(sequence) else { continue }
            done += 1
            guard try holds(simulation, sequence, depth, effort.seed) else { break }
        }
        say("\(limit >= all ? "all of" : "some of") \(length) steps on a tree", done, simulation, since: begin)
    }

    private func say(_ what: String, _ sequences: Int, _ simulation: TreeSimulation, since start: UInt64) {
        let seconds = Double(monotonicNanoseconds() - start) / 1e9
        print(
            "power cuts, \(what): \(sequences) sequences, \(simulation.states) states in \(Int(seconds)) s,",
            "\(Int(Double(simulation.states) / seconds)) states/s, seed \(effort.seed)")
        // A night's run is watched.
        fflush(nil)
    }

    @Test func oneStep() throws {
        try exhaust(
            1, limit: effort.pick(sanitizer: 6, tests: .max, night: .max),
            SimulationDepth(
                outcomes: effort.pick(sanitizer: 6, tests: 48, night: 512),
                recoverEvery: effort.pick(sanitizer: 3, tests: 2, night: 1), recoveryOutcomes: 16))
    }

    @Test func twoSteps() throws {
        try exhaust(
            2, limit: effort.pick(sanitizer: 2, tests: 60, night: .max),
            SimulationDepth(
                outcomes: effort.pick(sanitizer: 4, tests: 16, night: 128),
                recoverEvery: effort.pick(sanitizer: 4, tests: 4, night: 3), recoveryOutcomes: 8, onlyLast: true))
    }

    @Test func threeSteps() throws {
        try exhaust(
            3, limit: effort.pick(sanitizer: 1, tests: 15, night: .max),
            SimulationDepth(
                outcomes: effort.pick(sanitizer: 4, tests: 16, night: 24), recoverEvery: 16, recoveryOutcomes: 4,
                onlyLast: true))
    }

    @Test func longSequences() throws {
        let begin = monotonicNanoseconds()
        let simulation = try TreeSimulation()
        var random = SeededGenerator(effort.seed)
        let depth = SimulationDepth(
            outcomes: effort.pick(sanitizer: 4, tests: 12, night: 48), recoverEvery: 8, recoveryOutcomes: 4)
        let limit = effort.pick(sanitizer: 1, tests: 15, night: Int.max)
        let end = begin + effort.pick(sanitizer: 1_000, tests: 1_000, night: effort.seconds) * 1_000_000_000
        var done = 0
        while done < limit, monotonicNanoseconds() < end {
            var sequence = TreeSequence(steps: [])
            let count = Int.random(in: 4...10, using: &random)
            while sequence.steps.count < count {
                sequence.steps.append(Self.steps[Int.random(in: 0..<Self.steps.count, using: &random)])
                if !simulation.isPossible(sequence) { sequence.steps.removeLast() }
            }
            done += 1
            guard try holds(simulation, sequence, depth, random.next()) else { break }
        }
        say("long random sequences on a tree", done, simulation, since: begin)
    }
}
