// Limits the descriptors of a store, so that the process has some left for operations that must always work.

internal import HostSystem
internal import Synchronization

/// A limit on the descriptors of one store. It refuses an operation before anything is opened or made.
public final class DescriptorQuota: Sendable {
    /// The use of a descriptor.
    enum Use {
        /// A file that a program has open.
        case file
        /// A directory, or a handle during an operation.
        case passing
        /// A file of the volume itself. Without it, acknowledged data would be lost.
        case reserve
    }

    private let used = Atomic<Int>(0)
    private let files: Int
    private let all: Int
    private let reserve: Int
    private let reclaim = Lock<@Sendable () -> Void>({})

    /// Makes a quota.
    /// - Parameters:
    ///   - files: the number of descriptors at which no more files are opened.
    ///   - all: the number at which nothing more is opened. The difference is for operations on names.
    ///   - reserve: additional descriptors for files that are opened through `BackingDirectory.reserved`.
    public init(files: Int, all: Int, reserve: Int = 0) {
        self.files = files
        self.all = all
        self.reserve = reserve
    }

    /// Sets the function to call when descriptors are short. It closes cached descriptors. The thread that opens a
    /// descriptor calls it, with the locks that it holds.
    func whenShort(_ body: @escaping @Sendable () -> Void) { reclaim.withLock { $0 = body } }

    /// Whether the quota refuses files now.
    var isShort: Bool { used.load(ordering: .relaxed) >= files }

    /// Opens a descriptor; ENFILE if the quota is used up.
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
