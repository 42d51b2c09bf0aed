// Locks a volume: refuses, flushes and wipes, in this order.

internal import HostSystem
internal import Keybag
internal import VolumeFormat

extension Volume {
    /// Locks the volume: steps 2 to 4 of docs/architecture.md, "One lock". The caller passes closures for the kernel's
    /// part.
    ///
    /// - Parameters:
    ///   - sweeping: whether the kernel may still hold pages. If so, the final state is `sweeping`, otherwise `locked`.
    ///   - readLimit: nanoseconds to wait for admitted class A reads.
    ///   - clearCache: runs while class A is refused and its key is still in memory, so that the kernel can write back.
    ///   - flush: runs the given flush of first pages. It may return before the flush ends. A file whose page was not
    ///     flushed is then empty.
    ///   - onLateFailure: gets the reason why no late records can be made. Writes after this lock are then refused.
    /// - Returns: false, with nothing done, unless the volume was unlocked.
    package func lock(
        sweeping: Bool = false, readLimit: UInt64 = 10_000_000_000,
        clearCache: () -> Void = {},
        flush: (_ firstPages: @escaping @Sendable () -> Void) -> Void = { $0() },
        onLateFailure: (VolumeError) -> Void
    ) -> Bool {
        guard keys.beginLocking() else { return false }
        clearCache()
        flush { [self] in flushHeaders() }
        _ = keys.waitForReads(until: monotonicNanoseconds() + readLimit)
        // Begins the log before the keys are wiped, so that no later write is lost.
        do throws(VolumeError) { try late.begin() } catch { onLateFailure(error) }
        return keys.finishLocking(sweeping: sweeping) { wipeAtLock() }
    }

    /// Writes page 0 of files that were just created, before their keys are wiped.
    private func flushHeaders() {
        for node in openNodes { try? content(of: node)?.flushHeader() }
    }

    /// Wipes the file keys of every open class A file. Contents of class B exist only while a handle is open. Runs
    /// under the exclusive side of the state lock.
    private func wipeAtLock() {
        for node in openNodes {
            guard let content = content(of: node), content.protectionClass == .complete else { continue }
            content.wipeKeys()
        }
    }

    private var openNodes: [Node] { opened.withLock { Array($0.values) } }

    /// Frees the buffers that requests have left, after a lock.
    package func releaseBuffers() { content.buffers.trim() }

    /// Frees the room that tables of nodes have for many more than there are.
    package func shrinkTables() { nodes.shrink() }
}
