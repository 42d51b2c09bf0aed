// Locks a volume: refuses, flushes and wipes, in this order.

internal import FileContents
internal import HostSystem
package import KeyFiles
internal import Keybag
package import VolumeFormat

extension Volume {
    // MARK: the steps of a lock, called in this order

    /// From here on the class is refused, except for pages that the kernel still has to write: its key stays until `finishLock`.
    ///
    /// - Parameter protectionClass: A for a lock of the volume; 7 when its time after a lock has run out.
    /// - Returns: false, with nothing done, unless the volume was unlocked, or for class 7 locked and the class open.
    package func beginLock(_ protectionClass: ProtectionClass) -> Bool { keys.beginLocking(protectionClass) }

    /// Writes page 0 of files that were just created, before their keys are wiped. A file whose page was not written is then
    /// empty.
    package func flushFirstPages() {
        for node in openNodes { try? content(of: node)?.flushHeader() }
    }

    /// Begins the log of writes that come after this lock, before the keys are wiped, so that none is lost. If it fails, the lock
    /// goes on, and these writes are refused. Class 7 uses the log of the lock before.
    package func beginLateRecords(_ protectionClass: ProtectionClass) throws(VolumeError) {
        if protectionClass == .complete { try late.begin() }
    }

    /// Wipes the keys.
    ///
    /// - Parameter sweeping: whether the kernel may still hold pages. If so, the final state is `sweeping`, otherwise `locked`.
    /// - Returns: false, with nothing done, if no lock was begun.
    package func finishLock(_ protectionClass: ProtectionClass, sweeping: Bool) -> Bool {
        keys.finishLocking(protectionClass, sweeping: sweeping) { wipeKeys(of: protectionClass) }
    }

    /// Locks a volume of which no kernel has pages.
    ///
    /// - Returns: whether it was open and is locked, and takes late records.
    package func lockUnmounted(_ protectionClass: ProtectionClass = .complete) -> Bool {
        guard beginLock(protectionClass) else { return false }
        flushFirstPages()
        _ = keys.waitForReads(of: protectionClass, until: monotonicNanoseconds() + 10_000_000_000)
        let takesRecords = (try? beginLateRecords(protectionClass)) != nil
        return finishLock(protectionClass, sweeping: false) && takesRecords
    }

    // MARK: the keys of open files

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
