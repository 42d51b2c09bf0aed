// Abandons nodes for which the kernel got a wrong size.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles
internal import VolumeFormat

extension Volume {
    /// Remembers a file's true size, if the backing file's length gives another one.
    func compareSize(of opened: FileContent, _ node: Node, backingLength: UInt64) {
        guard !options.isShared else { return }
        let size = opened.size
        trueSizes.compare(
            size, of: node.key, backingLength: backingLength,
            isTold: content.geometry.size(backingLength: backingLength) == size, before: nodes.nextSerial)
    }

    /// Applies a file's late records while it is opened. They may change the size, which the kernel may know from before.
    func applyLateRecords(to opened: FileContent, _ node: Node) throws(VolumeError) {
        let size = opened.size
        guard try late.apply(to: opened) else { return }
        forgetLastSeen(node)
        guard !options.isShared, opened.size != size else { return }
        let status = try below { () throws(Errno) in try opened.backing.status() }
        trueSizes.remember(opened.size, of: node.key, backingLength: status.size, before: nodes.nextSerial)
    }

    /// Forgets the true size of a file that nothing opens again.
    package func forgetTrueSize(of node: Node) { trueSizes.forget(node.key) }

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
        guard trueSizes.wereWrong(for: node) else { return }
        opened.waitForOthers(milliseconds: 500) { node.state.withLock { $0.handles > 0 && !$0.isSuperseded } }
        leaveIfClosed(node)
    }
}
