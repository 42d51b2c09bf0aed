// Notices when an object gets a weaker class, for the record of the mount.

internal import KeyFiles
internal import ProtectedVolume
package import VolumeFormat

/// A file, or a directory's default, that has got a weaker class.
package struct LoweredClass: Sendable, Equatable {
    /// The inode number, which `find -inum` finds.
    package let inode: UInt64
    /// The class before.
    package let before: ProtectionClass
    /// The class now.
    package let after: ProtectionClass
    /// Who did it. Nil if the kernel did not say.
    package let user: UInt32?
}

extension Volume {
    /// Runs a change of a node's class, and tells whether it made the class weaker.
    /// - Parameter user: called only if it did.
    func changingClass(
        of node: Node, by user: () -> UInt32?, _ change: () throws(VolumeError) -> Void
    ) throws(VolumeError) -> LoweredClass? {
        let before = classInForce(of: node)
        try change()
        guard let before, let after = classInForce(of: node), before.isStronger(than: after) else { return nil }
        return LoweredClass(inode: node.inode, before: before, after: after, user: user())
    }
}
