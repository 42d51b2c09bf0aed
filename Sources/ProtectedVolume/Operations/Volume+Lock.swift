// Locks a volume: refuses, flushes and wipes, in this order.

internal import FileContents
internal import HostSystem
package import KeyFiles
internal import Keybag
package import VolumeFormat

extension Volume {
    /// Locks the volume, or closes class 7 alone after a lock: steps 2 to 4 of docs/architecture.md, "One lock". The caller
    /// passes closures for the kernel's part.
    ///
    /// - Parameters:
    ///   - protectionClass: A for a lock of the volume; 7 when its time after a lock has run out.
    ///   - sweeping: whether the kernel may still hold pages. If so, the final state is `sweeping`, otherwise `locked`.
    ///   - readLimit: nanoseconds to wait for admitted reads of the class.
    ///   - clearCache: runs while the class is refused and its key is still in memory, so that the kernel can write back.
    ///   - flush: runs the given flush of first pages. It may return before the flush ends. A file whose page was not
    ///     flushed is then empty.
    ///   - onLateFailure: gets the reason why no late records can be made. Writes after this lock are then refused.
    /// - Returns: false, with nothing done, unless the volume was unlocked, or for class 7 locked and the class open.
    package func lock(
        _ protectionClass: ProtectionClass = .complete, sweeping: Bool = false, readLimit: UInt64 = 10_000_000_000,
        clearCache: () -> Void = {},
        flush: (_ firstPages: @escaping @Sendable () -> Void) -> Void = { $0() },
        onLateFailure: (VolumeError) -> Void
    ) -> Bool {
        guard keys.beginLocking(protectionClass) else { return false }
        clearCache()
        flush { [self] in flushHeaders() }
        _ = keys.waitForReads(of: protectionClass, until: monotonicNanoseconds() + readLimit)
        // Begins the log before the keys are wiped, so that no later write is lost. Class 7 uses the log of the lock before.
        if protectionClass == .complete {
            do throws(VolumeError) { try late.begin() } catch { onLateFailure(error) }
        }
        return keys.finishLocking(protectionClass, sweeping: sweeping) { wipeKeys(of: protectionClass) }
    }

    /// Writes page 0 of files that were just created, before their keys are wiped.
    private func flushHeaders() {
        for node in openNodes { try? content(of: node)?.flushHeader() }
    }

    /// Wipes the file keys of every open file of class A or 7, at a lock those of class B files that no program has open, and
    /// those of files that are being opened or copied. Runs under the exclusive side of the state lock.
    private func wipeKeys(of closing: ProtectionClass) {
        for node in openNodes {
            guard let content = content(of: node) else { continue }
            switch content.protectionClass {
            case closing: content.wipeKeys()
            case .completeUnlessOpen where closing == .complete && node.openHandles == 0: content.wipeKeys()
            default: break
            }
        }
        content.looseKeys.wipe(closing: closing)
    }

    // MARK: class B files that only the volume itself has open

    /// Wipes the key of a class B file if a program has closed it last and the volume is locked: the volume's own work on it, which
    /// may wait for the store, then ends as that on a class A file. The caller holds the node's stripe.
    func wipeIfUnopened(_ node: Node) {
        guard keys.state != .unlocked, node.openHandles == 0, let content = content(of: node),
            content.protectionClass == .completeUnlessOpen
        else { return }
        // Else the last release tries again, which needs the key.
        guard (try? content.flushHeader()) != nil else { return }
        keys.wipeIfLocked { content.wipeKeys() }
    }

    /// Gives a class B file whose handle was just counted its key back, if a lock has wiped it because no program had the file
    /// open. Refuses the handle if the volume is still locked.
    func requireKept(_ content: FileContent) throws(VolumeError) {
        let protectionClass = content.protectionClass
        guard protectionClass == .completeUnlessOpen else { return }
        try keys.withState { (held) throws(VolumeError) in
            if !content.hasKey { try content.judge(held, .open) }
        }
    }

    private var openNodes: [Node] { opened.all }

    /// Frees the buffers that requests have left, after a lock.
    package func releaseBuffers() { content.buffers.trim() }

    /// Frees the room that tables of nodes have for many more than there are.
    package func shrinkTables() { nodes.shrink() }
}
