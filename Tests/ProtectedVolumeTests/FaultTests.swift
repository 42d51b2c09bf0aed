// Faults of the backing store at every call of short operations.

import HostSystem
import Testing
import VolumeFormat

@testable import BackingStore
@testable import ProtectedVolume

@Suite(.serialized) struct FaultTests {
    private static let long = TreeSimulation.long
    static let operations: [FaultyOperation] =
        [
            .append(50), .append(9000), .write(at: 10, count: 20), .write(at: 3900, count: 5000),
            .write(at: 30_000, count: 300), .truncate(0), .truncate(40), .truncate(5000), .truncate(12_900),
            .truncate(30_000), .punch(0, 30_000), .punch(3932, 4060), .zero(4000, 20_000), .reserve(0, 17_000),
            .changeClass(.complete), .changeClass(.none), .synchronize,
        ].map { FaultyOperation.file($0) }
        + [
            .mkdir("n"), .mkdir("d/" + long + "1"), .create("n", synced: false), .create("n", synced: true),
            .create(long + "1", synced: true), .overwrite("x"), .unlink("x"), .unlink(long), .rmdir("e"),
            .rename("x", "n"), .rename("x", "d/f"), .rename("d", "e"), .rename("e", "d/n"), .rename(long, long + "1"),
            .rename("x", "e/" + long + "1"), .exchange("x", "d"), .link("x", "d/n"), .link("x", long + "1"),
            .symlink("n"), .setDefault("d", .complete), .setDefault("", .completeUnlessOpen), .setAttribute("x"),
            .setAttribute("d"), .reencrypt("x"), .synchronize("x"), .synchronizeRoot,
        ].map { FaultyOperation.tree($0) } + [.read, .walk]

    /// Every fault, or a random part of them. All failures are reported at the end.
    @Test func everyCallFails() throws {
        let effort = PowerCutEffort.current
        let begin = monotonicNanoseconds()
        let simulation = try FaultSimulation()
        var random = SeededGenerator(effort.seed)
        let share = effort.pick(sanitizer: 1, tests: 6, night: Int.max)
        var failures: [String] = []
        for operation in Self.operations {
            var plans = try simulation.plans(operation)
            if plans.count > share { plans = Array(plans.shuffled(using: &random).prefix(share)) }
            for plan in plans {
                do { try simulation.run(operation, plan) } catch { failures.append("\(error)") }
            }
        }
        let seconds = Int((monotonicNanoseconds() - begin) / 1_000_000_000)
        print("faults: \(simulation.runs) runs in \(seconds) s, \(simulation.harmless) harmless, seed \(effort.seed)")
        for failure in failures.prefix(40) { Issue.record("\(failure.replacing(Self.long, with: "long"))") }
        #expect(failures.isEmpty, "\(failures.count) in all, seed \(effort.seed)")
    }
}
