// Proves the class of a file, for every decision that changes or passes on a class.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

extension Volume {
    /// The class of an entry's file, proven: by its open content, by block 0, or, where the class is closed, by what this mount
    /// had proven before it closed the file, if the header still says so. Nil for a file without header (rule R0).
    ///
    /// - Throws: `.locked(.complete)` where it cannot be proven now: whatever the header claims, it may be a class A file.
    ///   `.damaged` where header or block 0 does not verify.
    func verifiedClass(
        of name: EntryName, _ status: Status, in directory: BackingDirectory
    ) throws(VolumeError) -> VerifiedClass? {
        let node = nodes.known(InodeKey(status))
        if let content = node?.state.withLock({ $0.content }) { return VerifiedClass(content.header) }
        let file = try below { () throws(Errno) in try directory.openFile(name, .readOnly) }
        do throws(VolumeError) {
            return try FileContent.verifiedHeader(in: content, backing: file).map { VerifiedClass($0) }
        } catch {
            guard case .locked = error else { throw error }
            guard let node, let header = try FileContent.header(in: content, backing: file) else {
                throw .locked(.complete)
            }
            let (known, id) = node.state.withLock { ($0.verified, $0.fileID) }
            guard let known, id == header.fileID, known.agrees(with: header) else { throw .locked(.complete) }
            return known
        }
    }

    /// The class that takes part in what becomes of names: the proven one or, for a file that is closed and of which this mount
    /// has proven nothing, what its header says.
    ///
    /// Only a class that is closed cannot be proven. So where another header was laid over the file's own, what takes its place
    /// or joins its family is in a class that is closed in this state, too. Who can lay one can as well remove the file.
    /// - Throws: `.locked(.complete)` where the header is not as this mount had proven it. `.damaged` where header or block 0
    ///   does not verify.
    func classForNames(
        of name: EntryName, _ status: Status, in directory: BackingDirectory
    ) throws(VolumeError) -> VerifiedClass? {
        do throws(VolumeError) {
            return try verifiedClass(of: name, status, in: directory)
        } catch {
            let known = nodes.known(InodeKey(status))?.state.withLock { $0.verified }
            guard case .locked = error, known == nil, let header = try header(of: name, status, in: directory) else {
                throw error
            }
            return VerifiedClass(header)
        }
    }
}
