// Power cuts under a file: short sequences exhaustively, longer ones at random; every failure prints the shortest
// sequence that shows it.

import BackingStore
import Glibc
import Keybag
import HostSystem
import Testing
import VolumeFormat

@testable import ProtectedVolume

/// How much is tried, from the environment: PROTECTFS_POWERCUT is `sanitizer` (a token), nothing (the test suite's
/// share) or `night` (`mount-scripts/measure/powercut`); PROTECTFS_POWERCUT_SEED repeats a run.
struct PowerCutEffort: Sendable {
    static let current = PowerCutEffort()

    private static func variable(_ name: String) -> String? {
        unsafe getenv(name).map { unsafe String(cString: $0) }
    }

    let isNight = variable("PROTECTFS_POWERCUT") == "night"
    let isToken = variable("PROTECTFS_POWERCUT") == "sanitizer"
    let seed: UInt64
    /// Of a night's long random sequences.
    let seconds = variable("PROTECTFS_POWERCUT_SECONDS").flatMap(UInt64.init) ?? 60

    init() {
        // A suite has the same result twice; a night looks further.
        let fresh: UInt64 = isNight ? .random(in: 1...999_999) : 1
        seed = Self.variable("PROTECTFS_POWERCUT_SEED").flatMap(UInt64.init) ?? fresh
    }

    /// One of three numbers.
    func pick<Value>(sanitizer: Value, tests: Value, night: Value) -> Value {
        isNight ? night : isToken ? sanitizer : tests
    }
}

/// Makes a failing sequence shorter as long as one of the simpler ones fails too.
func shortest<Sequence>(
    _ sequence: Sequence, _ failure: String, simpler: (Sequence) -> [Sequence], failing: (Sequence) -> String?
) -> (Sequence, String) {
    for candidate in simpler(sequence) {
        if let next = failing(candidate) { return shortest(candidate, next, simpler: simpler, failing: failing) }
    }
    return (sequence, failure)
}

@Suite(.serialized) struct PowerCutTests {
    static let steps: [PowerCutStep] = [
        .append(50), .append(4000), .append(9000), .write(at: 10, count: 20), .write(at: 3900, count: 5000),
        .write(at: 13_000, count: 100), .write(at: 20_000, count: 300), .write(at: 0, count: 9000), .truncate(0),
        .truncate(40), .truncate(3932), .truncate(5000), .truncate(9000), .truncate(20_000), .punch(0, 30_000),
        .punch(3932, 4060), .zero(4000, 9000), .reserve(0, 17_000), .changeClass(.completeUnlessOpen),
        .changeClass(.none), .replace(6000, synced: false), .replace(6000, synced: true), .synchronize,
    ]
    static let starts: [FileStart] = [
        .new, .full(0), .full(100), .full(3932), .full(5000), .full(12_052), .full(13_000), .sparse(13_000),
        .sparse(25_000),
    ]

    private let effort = PowerCutEffort.current

    /// Tries one sequence; where it fails, the shortest that does is recorded.
    private func holds(
        _ simulation: FileSimulation, _ sequence: FileSequence, _ depth: SimulationDepth, _ seed: UInt64
    ) throws -> Bool {
        do {
            try simulation.run(sequence, depth, seed: seed)
            return true
        } catch let failure as SimulationFailure {
            let (_, text) = shortest(sequence, "\(failure)", simpler: \.simpler) { candidate in
                var all = depth
                all.onlyLast = false
                all.outcomes = max(256, depth.outcomes)
                do { try simulation.run(candidate, all, seed: seed) } catch { return "\(error)" }
                return nil
            }
            Issue.record("\(text)\n  seed \(seed), suite \(simulation.keys.ring.suite)")
            return false
        }
    }

    private func say(_ what: String, _ sequences: Int, _ simulation: FileSimulation, since start: UInt64) {
        let seconds = Double(monotonicNanoseconds() - start) / 1e9
        print(
            "power cuts, \(what): \(sequences) sequences, \(simulation.states) states in \(Int(seconds)) s,",
            "\(Int(Double(simulation.states) / seconds)) states/s, seed \(effort.seed)")
        // A night's run is watched.
        fflush(nil)
    }

    /// All sequences of `length` steps in order, or a random choice of `limit`.
    private func exhaust(
        _ length: Int, _ suite: CipherSuite, limit: Int, _ depth: SimulationDepth, _ what: String
    ) throws {
        let begin = monotonicNanoseconds()
        let simulation = try FileSimulation(suite)
        let all = (0..<length).reduce(Self.starts.count) { count, _ in count * Self.steps.count }
        var random = SeededGenerator(effort.seed)
        var done = 0
        while done < min(limit, all) {
            var number = limit >= all ? done : Int.random(in: 0..<all, using: &random)
            var sequence = FileSequence(start: Self.starts[number % Self.starts.count], steps: [])
            number /= Self.starts.count
            for _ in 0..<length {
                sequence.steps.append(Self.steps[number % Self.steps.count])
                number /= Self.steps.count
            }
            done += 1
            guard try holds(simulation, sequence, depth, effort.seed) else { break }
        }
        say("\(what) \(length) steps on a file, \(suite.name)", done, simulation, since: begin)
    }

    @Test func oneStep() throws {
        let depth = SimulationDepth(
            outcomes: effort.pick(sanitizer: 8, tests: 128, night: 1024),
            recoverEvery: effort.pick(sanitizer: 4, tests: 2, night: 1),
            recoveryOutcomes: effort.pick(sanitizer: 3, tests: 8, night: 64))
        try exhaust(1, .aes256GCM, limit: effort.pick(sanitizer: 40, tests: .max, night: .max), depth, "all of")
    }

    @Test func twoSteps() throws {
        let depth = SimulationDepth(
            outcomes: effort.pick(sanitizer: 8, tests: 32, night: 512),
            recoverEvery: effort.pick(sanitizer: 8, tests: 8, night: 2),
            recoveryOutcomes: effort.pick(sanitizer: 3, tests: 4, night: 16), onlyLast: true)
        try exhaust(
            2, .aes256GCM, limit: effort.pick(sanitizer: 10, tests: 200, night: .max), depth,
            effort.isNight ? "all of" : "some of")
    }

    @Test func threeSteps() throws {
        let depth = SimulationDepth(
            outcomes: effort.pick(sanitizer: 8, tests: 24, night: 128),
            recoverEvery: effort.pick(sanitizer: 8, tests: 8, night: 16),
            recoveryOutcomes: effort.pick(sanitizer: 3, tests: 4, night: 4), onlyLast: true)
        try exhaust(
            3, .xChaCha20Poly1305, limit: effort.pick(sanitizer: 5, tests: 100, night: .max), depth,
            effort.isNight ? "all of" : "some of")
    }

    /// 4 to 12 steps with random numbers in them.
    @Test func longSequences() throws {
        let begin = monotonicNanoseconds()
        let simulation = try FileSimulation(.aes256GCM)
        var random = SeededGenerator(effort.seed)
        let depth = SimulationDepth(
            outcomes: effort.pick(sanitizer: 4, tests: 24, night: 96), recoverEvery: 8, recoveryOutcomes: 4)
        let limit = effort.pick(sanitizer: 3, tests: 60, night: Int.max)
        let end = begin + effort.pick(sanitizer: 1_000, tests: 1_000, night: effort.seconds) * 1_000_000_000
        var done = 0
        while done < limit, monotonicNanoseconds() < end {
            let size = Int.random(in: 0...20_000, using: &random)
            let start = [.new, .full(size), .sparse(size + 200)].randomElement(using: &random) ?? FileStart.new
            let count = Int.random(in: 4...12, using: &random)
            let steps = (0..<count).map { _ in PowerCutStep.random(using: &random) }
            done += 1
            guard try holds(simulation, FileSequence(start: start, steps: steps), depth, random.next()) else { break }
        }
        say("long random sequences on a file", done, simulation, since: begin)
    }
}

extension PowerCutStep {
    /// Any step, near the ends of pages more often than elsewhere.
    static func random(using random: inout SeededGenerator) -> PowerCutStep {
        func place() -> Int {
            let page = Int.random(in: 0...5, using: &random)
            let near = page == 0 ? 0 : 3932 + (page - 1) * 4060
            return max(
                0,
                near
                    + (Bool.random(using: &random)
                        ? Int.random(in: -2...2, using: &random)
                        : Int.random(in: 0...4059, using: &random)))
        }
        let count = Int.random(in: 1...(Bool.random(using: &random) ? 60 : 9000), using: &random)
        switch Int.random(in: 0..<12, using: &random) {
        case 0, 1: return .append(count)
        case 2, 3: return .write(at: place(), count: count)
        case 4, 5: return .truncate(place())
        case 6: return .punch(place(), count * 2)
        case 7: return .zero(place(), count)
        case 8: return .reserve(place(), count)
        case 9: return .changeClass(ProtectionClass.allCases.randomElement(using: &random) ?? .none)
        case 10: return .replace(count, synced: Bool.random(using: &random))
        default: return .synchronize
        }
    }
}
