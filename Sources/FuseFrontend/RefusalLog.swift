// Logs why a program was answered EACCES: one line for each file and process, and never a flood.

internal import HostSystem
internal import HostSystem

/// Lines that show that the volume was locked, and that permissions were not the problem.
final class RefusalLog: Sendable {
    private struct Pair: Hashable {
        var node: UInt64
        var process: Int32
        var isLateWrite: Bool
    }
    private struct State: Sendable {
        var told: Set<Pair> = []
        var windowStart: UInt64 = 0
        var linesInWindow = 0
        var suppressed = 0
    }
    static let linesPerWindow = 20
    static let windowNanoseconds: UInt64 = 10_000_000_000
    static let remembered = 4096

    private let state = Lock(State())
    private let namesPrograms: Bool
    private let clock: @Sendable () -> UInt64
    private let log: @Sendable (String) -> Void

    /// - Parameter namesPrograms: writes down the names of programs. A script has the name of its file, which may be on the
    ///   mount, and a program may give its threads any name.
    init(
        namesPrograms: Bool = false, clock: @escaping @Sendable () -> UInt64 = { WallClock.bootNanoseconds },
        log: @escaping @Sendable (String) -> Void
    ) {
        self.namesPrograms = namesPrograms
        self.clock = clock
        self.log = log
    }

    /// Logs a refusal once for each file and process. `subject` is called only if a line is written.
    func refused(node: UInt64, process: Int32, isLateWrite: Bool = false, _ subject: () -> String) {
        let now = clock()
        let (isNew, suppressed) = state.withLock { state -> (Bool, Int) in
            if state.told.count >= Self.remembered { state.told.removeAll() }
            guard state.told.insert(Pair(node: node, process: process, isLateWrite: isLateWrite)).inserted else {
                return (false, 0)
            }
            if nanoseconds(from: state.windowStart, to: now) > Self.windowNanoseconds {
                let missed = state.suppressed
                state.windowStart = now
                state.linesInWindow = 1
                state.suppressed = 0
                return (true, missed)
            }
            state.linesInWindow += 1
            if state.linesInWindow > Self.linesPerWindow {
                state.suppressed += 1
                return (false, 0)
            }
            return (true, 0)
        }
        if suppressed > 0 { log("\(suppressed) more refusals were not written down") }
        guard isNew else { return }
        log("\(subject()), process \(process)\(namesPrograms ? Self.name(of: process) : "")")
    }

    /// Forgets what was logged, so that refusals after the next lock are logged again.
    func reset() {
        state.withLock { $0.told.removeAll() }
    }

    private static func name(of process: Int32) -> String {
        Processes.name(of: process).map { " (\($0))" } ?? ""
    }
}
