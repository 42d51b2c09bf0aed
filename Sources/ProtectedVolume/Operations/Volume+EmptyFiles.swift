// Which empty files of class B are opened for writing while the class is closed.

internal import FileContents
internal import HostSystem
internal import Keybag
internal import VolumeFormat

extension Volume {
    /// Whether an open file is an empty one that can be opened for writing in every state. Its key is in memory.
    func opensEmpty(_ content: FileContent) -> Bool {
        content.protectionClass == .completeUnlessOpen && content.size == 0 && content.hasKey && !options.isShared
            && !content.owesLateRecords
    }

    /// Whether the kernel may hold data for a file that it has not written yet. Then the file may only seem to be empty.
    func isOpenForWriting(_ node: Node) -> Bool { node.state.withLock { $0.writableHandles > 0 } }

    /// Waits at most a second if only the handles of others keep an empty file from being opened: the kernel releases a handle some
    /// time after the program has closed it.
    func waitForOtherWriters(of node: Node) {
        guard let content = node.state.withLock({ $0.content }), isOpenForWriting(node), opensEmpty(content),
            (try? judgeOpen(content.protectionClass)) == nil
        else { return }
        opened.waitForOthers(milliseconds: 1000) { isOpenForWriting(node) && opensEmpty(content) }
    }
}
