// The flags of chattr(1). The store keeps them and obeys them.

package import BackingStore
internal import FileContents
internal import HostSystem
package import KeyFiles

extension Volume {
    /// The flags of a file or directory; ENOTTY for other objects, and if the store has none.
    package func flags(of node: Node) throws(VolumeError) -> InodeFlags {
        try withFlags(of: node) { (object) throws(Errno) in try object.flags() }.intersection(.settable)
    }

    /// Sets the flags. EOPNOTSUPP if others than `InodeFlags.settable` would change. The kernel has checked the permission.
    package func setFlags(_ flags: InodeFlags, of node: Node) throws(VolumeError) {
        try requireWritable()
        guard flags.isSubset(of: .settable) else { throw .notSupported }
        defer { noteChange(node) }
        try withFlags(of: node) { (object) throws(Errno) in try object.setFlags(flags) }
        try settleChange(of: node)
    }

    private func withFlags<Result>(
        of node: Node, _ body: (BackingNode) throws(Errno) -> Result
    ) throws(VolumeError) -> Result {
        switch node.kind {
        case .file:
            return try withContent(node, writable: false) { (content) throws(VolumeError) in
                try below { () throws(Errno) in try body(content.backing) }
            }
        case .directory:
            // A removed one is reached through its pin.
            let pin = node.state.withLock { $0.pin }
            let directory: BackingNode = if let pin { pin.node } else { try directory(node) }
            return try below { () throws(Errno) in try body(directory) }
        default: throw .refused(.ENOTTY)
        }
    }
}
