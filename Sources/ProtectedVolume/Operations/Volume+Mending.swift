// Repairs the middle of long files in the background after a crash, while programs have the files open.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles
internal import VolumeFormat

extension Volume {
    /// Mends a part of each open file whose middle waits; false if none can be mended now.
    ///
    /// - Parameter mayGoOn: is called between two holds. If it returns false, the round ends.
    package func mendSome(mayGoOn: () -> Bool) -> Bool {
        var isWaiting = false
        for node in opened.all {
            guard mayGoOn() else { return false }
            guard self.content(of: node)?.canBeMended == true else { continue }
            // Uses a handle of its own, so that the keys are wiped with the last handle.
            let isUnfinished = try? withContent(node, writable: false) { (content) throws(VolumeError) -> Bool in
                defer { node.state.withLock { $0.lastSeen = nil } }
                for _ in 0..<16 where mayGoOn() {
                    if try !content.mendSome() { return false }
                }
                return true
            }
            if isUnfinished == true { isWaiting = true }
        }
        return isWaiting
    }
}
