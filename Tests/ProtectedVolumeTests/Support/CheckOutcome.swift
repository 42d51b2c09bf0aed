// What a check of a whole volume says.

import BackingStore
import HostSystem
import KeyFiles
import Keybag
@testable import MemoryStore
import VolumeFormat

@testable import ProtectedVolume
@testable import VolumeCheck

struct CheckOutcome {
    let summary: CheckSummary
    let findings: [Finding]
    var kinds: [String] { findings.map(\.kind.rawValue).sorted() }

    static func of(
        _ it: TestVolume, _ directory: BackingDirectory, unlocked: Bool = true, mends: Bool = true, threads: Int = 3,
        _ change: (inout CheckOptions) -> Void = { _ in }
    ) throws -> CheckOutcome {
        let ring = try it.keys.ring()
        if unlocked { try it.keys.unlock(ring) }
        let findings = Lock<[Finding]>([])
        var options = CheckOptions()
        options.mends = mends
        options.threads = threads
        change(&options)
        let states = StateFileStore(directory: it.states.root, volumeID: ring.volumeID)
        let summary = try Check.run(
            directory: directory.reopen(), keys: ring, states: states, options: options
        ) { finding in findings.withLock { $0.append(finding) } }
        return CheckOutcome(summary: summary, findings: findings.withLock { $0 })
    }
}
