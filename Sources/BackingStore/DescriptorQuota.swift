// How many descriptors a store may hold, so that the process keeps some for what must always work.

internal import HostSystem
internal import Synchronization

/// A bound on the descriptors of one store. What it refuses is refused before anything is opened or made.
public final class DescriptorQuota: Sendable {
    /// What a descriptor is for.
    enum Use {
        /// A file that a program has open.
        case file
        /// A directory, or a handle on the way of an operation.
        case passing
        /// A file of the volume's own, without which something that was promised would be lost.
        case reserve
    }

    private let used = Atomic<Int>(0)
    private let files: Int
    private let all: Int
    private let reserve: Int
    private let reclaim = Lock<@Sendable () -> Void>({})

    /// - Parameters:
    ///   - files: no file is opened when so many descriptors are held.
    ///   - all: nothing is; operations on names need a few while files have all of theirs.
    ///   - reserve: so many more for files that are opened through `BackingDirectory.reserved`.
    public init(files: Int, all: Int, reserve: Int = 0) {
        self.files = files
        self.all = all
        self.reserve = reserve
    }

    /// What to call when descriptors are short: gives up those that are kept for speed only. Called by whoever opens
    /// something, with the locks that he holds.
    func whenShort(_ body: @escaping @Sendable () -> Void) { reclaim.withLock { $0 = body } }

    /// Whether files are refused now.
    var isShort: Bool { used.load(ordering: .relaxed) >= files }

    /// Opens a descriptor; ENFILE where there is no room for it.
    func opening(_ use: Use, _ body: () throws(Errno) -> Int32) throws(Errno) -> Int32 {
        if !take(use) {
            reclaim.withLock { $0 }()
            guard take(use) else { throw .ENFILE }
        }
        do throws(Errno) {
            return try body()
        } catch {
            giveBack()
            throw error
        }
    }

    func giveBack() { used.subtract(1, ordering: .relaxed) }

    private func take(_ use: Use) -> Bool {
        let limit =
            switch use {
            case .file: files
            case .passing: all
            case .reserve: all + reserve
            }
        guard used.add(1, ordering: .relaxed).oldValue < limit else {
            giveBack()
            return false
        }
        return true
    }
}
