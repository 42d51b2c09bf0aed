// Remembers the true size of files whose backing length disagrees with their last block, after a crash or an outside change.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles
internal import VolumeFormat

/// The true size of a file, found when it was opened.
struct TrueSize: Sendable {
    /// The backing file's length that gave another size; `.max` if it does not count any more.
    var length: UInt64
    /// The size according to the last block.
    var size: UInt64
    /// Nodes from this serial number on had the true size from the beginning.
    var firstTruthful: UInt64
}

extension Volume {
    /// Remembers a file's true size, if the backing file's length gives another one.
    ///
    /// The backing file is not changed, so that a file that is only read keeps its crash evidence.
    func compareSize(of opened: FileContent, _ node: Node, backingLength: UInt64) {
        guard !options.isShared else { return }
        let size = opened.size
        let isTold = content.geometry.size(backingLength: backingLength) == size
        let next = nodes.nextSerial
        trueSizes.withLock { sizes in
            if isTold {
                // What is remembered is of an earlier content. The kernel may have got it.
                guard let known = sizes[node.key], known.length == backingLength, known.size != size else { return }
                sizes[node.key] = TrueSize(length: .max, size: size, firstTruthful: next)
                return
            }
            if let known = sizes[node.key], known.length == backingLength, known.size == size { return }
            sizes[node.key] = TrueSize(length: backingLength, size: size, firstTruthful: next)
        }
    }

    /// Called before the last close: forgets a remembered size if the file has got another one.
    func settleSize(of closing: FileContent, _ node: Node) {
        trueSizes.withLock { sizes in
            guard let known = sizes[node.key], known.size != closing.size else { return }
            sizes[node.key]?.length = .max
        }
    }

    /// Applies a file's late records while it is opened. They may change the size, which the kernel may know from before.
    func applyLateRecords(to opened: FileContent, _ node: Node) throws(VolumeError) {
        let size = opened.size
        guard try late.apply(to: opened) else { return }
        forgetLastSeen(node)
        guard !options.isShared, opened.size != size else { return }
        let status = try below { () throws(Errno) in try opened.backing.status() }
        let found = TrueSize(length: status.size, size: opened.size, firstTruthful: nodes.nextSerial)
        trueSizes.withLock { $0[node.key] = found }
    }

    /// Forgets the true size of a file that nothing opens again.
    package func forgetTrueSize(of node: Node) {
        trueSizes.withLock { _ = $0.removeValue(forKey: node.key) }
    }

    /// The size of a file that is not open, if its backing length is known to give a wrong one.
    func trueSize(of node: Node, backingLength: UInt64) -> UInt64? {
        trueSizes.withLock { sizes in
            guard let known = sizes[node.key], known.length == backingLength else { return nil }
            return known.size
        }
    }

    /// Whether the kernel got a wrong size for the node. It keeps the size of an inode that it knows, so it must look the name
    /// up again and make another inode. ESTALE from an open causes that, unnoticed by the program. The kernel does so once: the
    /// second look must not find the same node.
    func showedWrongSize(_ node: Node) -> Bool {
        trueSizes.withLock { sizes in
            sizes[node.key].map { node.serial < $0.firstTruthful } ?? false
        }
    }

    /// Abandons the node unless its content is open: a file must never have two open contents.
    func leaveIfClosed(_ node: Node) {
        let isLeft = node.state.withLock { state in
            guard state.handles == 0 else { return false }
            state.isSuperseded = true
            return true
        }
        if isLeft { nodes.replaced(node) }
    }

    /// Abandons the node of a file that showed a wrong size, and that a call of the volume's own has open. Waits briefly for
    /// that call: as long as the node is known, the kernel finds it again, and its second ESTALE goes to the program.
    func leaveWhenClosed(_ node: Node) {
        guard showedWrongSize(node) else { return }
        waitForOthers(milliseconds: 500) { node.state.withLock { $0.handles > 0 && !$0.isSuperseded } }
        leaveIfClosed(node)
    }
}
