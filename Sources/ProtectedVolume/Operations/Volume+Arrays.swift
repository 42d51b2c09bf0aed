// The calls whose names are spans, for callers that have arrays.

package import BackingStore
package import FileContents
package import KeyFiles

extension Volume {
    /// `lookup`, for an array.
    package func lookup(_ name: [UInt8], in parent: Node) throws(VolumeError) -> Entry {
        try lookup(name.span, in: parent)
    }

    /// `create`, for an array.
    package func create(
        _ name: [UInt8], in parent: Node, mode: UInt32, caller: Caller
    ) throws(VolumeError) -> (entry: Entry, content: FileContent) {
        try create(name.span, in: parent, mode: mode, caller: caller)
    }

    /// `mkdir`, for an array.
    package func mkdir(
        _ name: [UInt8], in parent: Node, mode: UInt32, caller: Caller
    ) throws(VolumeError) -> Entry {
        try mkdir(name.span, in: parent, mode: mode, caller: caller)
    }

    /// `unlink`, for an array.
    @discardableResult
    package func unlink(_ name: [UInt8], in parent: Node) throws(VolumeError) -> Node? {
        try unlink(name.span, in: parent)
    }

    /// `rename`, for arrays.
    @discardableResult
    package func rename(
        _ name: [UInt8], in parent: Node, to newName: [UInt8], in newParent: Node, mode: RenameMode,
        caller: Caller? = nil
    ) throws(VolumeError) -> (moved: Node?, target: Node?) {
        try rename(name.span, in: parent, to: newName.span, in: newParent, mode: mode, caller: caller)
    }
}
