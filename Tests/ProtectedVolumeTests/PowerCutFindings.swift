// Failures that the simulations of power cuts and faults have found once, kept as they were found.

@testable import MemoryStore
import HostSystem
import Testing
import VolumeFormat

@testable import BackingStore
@testable import ProtectedVolume

@Suite struct PowerCutFindings {
    static let files: [FileSequence] = [
        // The punch was on disk before the HOLES that the write past the end had set: the size fell below both.
        FileSequence(start: .full(12_052), steps: [.truncate(3932), .write(at: 13_000, count: 100), .punch(0, 30_000)])
    ]
    static let trees: [TreeSequence] = [
        // The header was lost and the attribute was not: a check called it damaged ever after.
        TreeSequence(steps: [.create("n", synced: false), .setAttribute("n")])
    ]

    @Test(arguments: files) func onAFile(_ sequence: FileSequence) throws {
        for suite in CipherSuite.allCases {
            try FileSimulation(suite).run(sequence, SimulationDepth(outcomes: 1 << 12, recoverEvery: 16))
        }
    }

    @Test(arguments: trees) func onATree(_ sequence: TreeSequence) throws {
        try TreeSimulation().run(sequence, SimulationDepth(outcomes: 256, recoverEvery: 4))
    }

    static let faults: [(FaultyOperation, StoreCall)] = [
        // An end that failed was EIO until the next mount.
        (.file(.truncate(0)), .truncate), (.file(.truncate(0)), .fdatasync),
        // A file without header, which could not be removed, was EIO, or ESTALE twice.
        (.tree(.create("n", synced: true)), .status), (.tree(.create("n", synced: true)), .write),
        // A long name stayed undecryptable.
        (.walk, .readSymlink),
    ]

    @Test func ofFaults() throws {
        let simulation = try FaultSimulation()
        for (operation, call) in Self.faults {
            for plan in try simulation.plans(operation) where plan.call == call && plan.error == .EIO {
                try simulation.run(operation, plan)
            }
        }
    }
}
