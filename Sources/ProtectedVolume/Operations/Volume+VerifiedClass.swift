// Proves the class of a file, for every decision that changes or passes on a class.

package import BackingStore
package import FileContents
internal import HostSystem
package import KeyFiles
internal import VolumeFormat

extension Volume {
    /// The proven class of an entry's file; nil for a file without header (rule R0).
    ///
    /// The proof is the open content, or block 0. While the class is closed it is an earlier proof of this mount, if the header
    /// still agrees with it.
    ///
    /// - Parameters:
    ///   - isReplaced: whether the file is about to be replaced, so that its last block and its attributes must be known, too.
    ///   - opened: the file, if the caller has opened it.
    /// - Throws: `.locked(.complete)` if the class cannot be proven now, because the file may be of class A, whatever
    ///   the header claims. `.damaged` if header or block 0 does not verify. `.newer`.
    package func verifiedClass(
        of name: EntryName, _ status: Status, in directory: BackingDirectory, isReplaced: Bool = false,
        opened: BackingFile? = nil
    ) throws(VolumeError) -> VerifiedClass? {
        let node = nodes.known(InodeKey(status))
        if let content = node?.state.withLock({ $0.content }) {
            if isReplaced { try requireKnownAttributes(of: content.backing, status) { content.header.fileID } }
            return VerifiedClass(content.header)
        }
        let file = try below { () throws(Errno) in
            if let opened { opened } else { try directory.openFile(name, .readOnly, seen: status) }
        }
        if isReplaced {
            try requireKnownAttributes(of: file, status) { [content] in
                try? FileContent.header(in: content, backing: file)?.fileID
            }
        }
        do throws(VolumeError) {
            return try FileContent.verifiedHeader(in: content, backing: file, isReplaced: isReplaced).map {
                VerifiedClass($0)
            }
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

    /// The class that a file passes on to others through its name: the proven one. If the class is closed, and this mount has
    /// proven nothing of the file, the header's class.
    ///
    /// Only a closed class cannot be proven. So a forged header can only pass on a class that is closed in this state too. An
    /// attacker who can forge it can also remove the file.
    /// - Throws: `.locked(.complete)` if the header differs from the one that this mount has proven. `.damaged` if
    ///   header or block 0 does not verify.
    func classForNames(
        of name: EntryName, _ status: Status, in directory: BackingDirectory, isReplaced: Bool = false,
        opened: BackingFile? = nil
    ) throws(VolumeError) -> VerifiedClass? {
        do throws(VolumeError) {
            return try verifiedClass(of: name, status, in: directory, isReplaced: isReplaced, opened: opened)
        } catch {
            let known = nodes.known(InodeKey(status))?.state.withLock { $0.verified }
            guard case .locked = error, known == nil, let header = try header(of: name, status, in: directory) else {
                throw error
            }
            return VerifiedClass(header)
        }
    }

    /// Opens an empty file of a closed class under a new key, if it can have one. A header that differs from the one that this
    /// mount has proven is no proof of the class. One that late records may wait for is not certainly empty.
    func openEmpty(_ node: Node, _ backing: BackingFile, _ status: Status) throws(VolumeError) -> FileContent? {
        let (known, id) = node.state.withLock { ($0.verified, $0.fileID) }
        return try FileContent.openEmpty(in: content, backing: backing, status) { header in
            (known?.agrees(with: header) ?? true) && (id ?? header.fileID) == header.fileID
                && !late.mayOwe(header.fileID)
        }
    }
}
