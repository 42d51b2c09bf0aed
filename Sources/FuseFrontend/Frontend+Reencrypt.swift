// Gives a file a new key and class on request of the control socket, and updates the kernel's view of it.

package import FileContents
internal import FuseBridge
internal import HostSystem
package import KeyFiles
internal import Keybag
internal import ProtectedVolume
internal import Synchronization
package import VolumeFormat

extension Frontend {
    /// How long to wait for the kernel to forget the old inode before answering anyway.
    private static let patience: UInt64 = 5_000_000_000

    /// Gives the file at `path` (components from the root) a new key and a class, and returns when lookups find it.
    ///
    /// - Parameter progress: gets the bytes done and the total. Returning false stops the work, as the end of the mount does.
    /// - Throws: `.refused(.EINTR)` if it was stopped, `.noEntry` if there is no such file, and the errors of
    ///   `Volume.reencrypt`.
    package func reencrypt(
        _ path: [[UInt8]], to protectionClass: ProtectionClass, by user: UInt32?,
        progress: (_ done: UInt64, _ total: UInt64) -> Bool
    ) throws(VolumeError) {
        guard let name = path.last else { throw .notSupported }
        let use = system.idleClock.begin()
        defer { withExtendedLifetime(use) {} }
        try volume.withNode(at: path) { (node, parent) throws(VolumeError) in
            // Written data may still be only in the page cache.
            _ = calls.flusher.flush([node], until: monotonicNanoseconds() + Self.patience)
            let total = try volume.attributes(of: node).size
            let before = volume.classInForce(of: node)
            let isReplaced = try volume.reencrypt(node, to: protectionClass) { now in
                !isEnding.load(ordering: .relaxed) && progress(now.done, total)
            }
            if let before, before.isStronger(than: protectionClass) {
                let now = isReplaced ? try? volume.lookup(name, in: parent).node : nil
                defer { if let now { volume.forget(now, count: 1) } }
                let inode = (now ?? node).inode
                events(.classLowered(.init(inode: inode, before: before, after: protectionClass, user: user)))
            }
            showReplaced(isReplaced, node, name, in: parent)
        }
    }

    /// Gives the file at `path` a new key, if its key is wrapped by a former class key. Its class stays.
    ///
    /// - Parameter progress: as in `reencrypt`, with more of the copy.
    /// - Returns: whether it got a new key.
    /// - Throws: as `reencrypt`.
    package func renewKey(
        _ path: [[UInt8]], progress: (_ copy: CopyProgress, _ total: UInt64) -> Bool
    ) throws(VolumeError) -> Bool {
        guard let name = path.last else { throw .notSupported }
        let use = system.idleClock.begin()
        defer { withExtendedLifetime(use) {} }
        return try volume.withNode(at: path) { (node, parent) throws(VolumeError) in
            guard try volume.hasFormerKey(node) else { return false }
            _ = calls.flusher.flush([node], until: monotonicNanoseconds() + Self.patience)
            let total = try volume.attributes(of: node).size
            let isReplaced = try volume.renewKey(of: node) { now in
                !isEnding.load(ordering: .relaxed) && progress(now, total)
            }
            showReplaced(isReplaced, node, name, in: parent)
            return true
        }
    }

    /// Has the kernel look a file up again that has a new inode, or look at its attributes again.
    private func showReplaced(_ isReplaced: Bool, _ node: Node, _ name: [UInt8], in parent: Node) {
        // The file's time of change is another one in any case.
        guard isReplaced else { return calls.forgetAttributesNow(node.number) }
        _ = calls.forget(name, in: parent.number, node.number, until: monotonicNanoseconds() + Self.patience)
    }

    /// Gives the file at `path` (components from the root) a class and keeps its key, as setxattr(2) does.
    package func changeClass(
        _ path: [[UInt8]], to protectionClass: ProtectionClass, by user: UInt32?
    ) throws(VolumeError) {
        try volume.withNode(at: path) { (node, _) throws(VolumeError) in
            guard node.kind == .file else { throw .notSupported }
            let lowered = try volume.changingClass(of: node, by: { user }) { () throws(VolumeError) in
                try volume.changeClass(of: node, to: protectionClass)
            }
            if let lowered { events(.classLowered(lowered)) }
        }
    }
}
