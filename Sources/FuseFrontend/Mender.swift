// The thread that repairs the middle of long files after a crash while programs use them.

internal import FileContents
internal import HostSystem
internal import ProtectedVolume

/// Continues in small steps with the repair that rule R5 postpones, and rests as long as each step took.
final class Mender: Sendable {
    private let volume: Volume
    private let thread: Lock<BackgroundThread?>

    init(_ volume: Volume) {
        self.volume = volume
        thread = Lock(nil)
    }

    func start() {
        guard !volume.options.isReadOnly else { return }
        let volume = volume
        let started = BackgroundThread(name: "pfs-mender") { Self.run(volume) }
        thread.withLock { $0 = started }
    }

    private static func run(_ volume: Volume) {
        let log = volume.content.mending
        var deadline: UInt64?
        while log.wait(until: deadline) {
            while !log.isStopping {
                let begin = monotonicNanoseconds()
                guard volume.mendSome(mayGoOn: { !log.isStopping }) else { break }
                let spent = nanoseconds(from: begin, to: monotonicNanoseconds())
                sleep(milliseconds: UInt32(clamping: max(1, min(spent / 1_000_000, 100))))
            }
            // Files that the lock has closed are tried again later; those with a newer block when they are opened anew.
            // Opening a file wakes this thread.
            deadline = log.isEmpty ? nil : monotonicNanoseconds() + 60_000_000_000
        }
    }

    /// Returns within a step. The rest stays tolerated. Call it once.
    func stop() {
        volume.content.mending.stop()
        thread.withLock { thread in
            defer { thread = nil }
            return thread
        }?.join()
    }
}
