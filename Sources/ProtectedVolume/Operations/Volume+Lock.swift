// The lock of a volume: the order in which refusing, flushing and wiping follow each other.

internal import HostSystem
internal import Keybag
internal import VolumeFormat

extension Volume {
    /// Locks the volume: steps 2 to 4 of docs/architecture.md, "One lock". The caller passes in what the kernel has to do.
    ///
    /// - Parameters:
    ///   - sweeping: whether the kernel may still hold pages: the state is then `sweeping` in the end, and otherwise `locked`.
    ///   - readLimit: nanoseconds for which class A reads that were admitted are waited for.
    ///   - clearCache: runs while class A is refused and its key is still in memory: the kernel can write back.
    ///   - flush: runs the given flush of first pages. It may return before the flush ends; an empty file is then what is left.
    ///   - onLateFailure: gets the reason why no late records can be made: writes after this lock will be refused.
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
        // Before the keys go: no write is lost from then on.
        do throws(VolumeError) { try late.begin() } catch { onLateFailure(error) }
        return keys.finishLocking(sweeping: sweeping) { wipeAtLock() }
    }

    /// Writes page 0 of files that were just created: their keys are about to be wiped.
    private func flushHeaders() {
        for node in openNodes { try? content(of: node)?.flushHeader() }
    }

    /// Wipes the file keys of every open class A file; contents of class B exist only while a handle is open. Runs under the
    /// exclusive side of the state lock.
    private func wipeAtLock() {
        for node in openNodes {
            guard let content = content(of: node), content.protectionClass == .complete else { continue }
            content.wipeKeys()
        }
    }

    private var openNodes: [Node] { opened.withLock { Array($0.values) } }

    /// Frees the buffers that requests have left: memory that only a busy moment needed. After a lock.
    package func releaseBuffers() { content.buffers.trim() }
}
