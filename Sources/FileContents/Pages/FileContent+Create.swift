// Creates files: an ID, a key, a header in memory, and a page 0 that may be written later.

package import BackingStore
internal import HostSystem
package import KeyFiles
internal import Keybag
internal import SodiumKit
package import VolumeFormat

/// A file that is about to be created. Its key is wrapped first, so that nothing is left behind if its class is closed.
package struct NewFile: ~Copyable {
    let header: FileHeader
    let key: SecretKey

    /// The new file's ID.
    package var fileID: ObjectID { header.fileID }

    consuming func takeKey() -> SecretKey { key }
}

extension FileContent {
    /// Prepares a file of `protectionClass` before anything is created in the store. Lists the mount's epoch as open.
    ///
    /// - Throws: `.locked` where the class is closed.
    package static func prepare(
        in context: ContentContext, class protectionClass: ProtectionClass, explicit: Bool
    ) throws(VolumeError) -> NewFile {
        guard !context.isReadOnly else { throw .readOnly }
        try context.epochs.begin()
        return try newFile(in: context, class: protectionClass, flags: explicit ? .explicit : [], .create)
    }

    /// The content of a file that was just created in the store, exclusively and empty. Its page 0 waits for the first
    /// write, `flushHeader()`, `synchronize` or `release()`.
    /// - Returns: also the file's status now.
    package static func create(
        _ file: consuming NewFile, in context: ContentContext, backing: BackingFile
    ) throws(VolumeError) -> (FileContent, Status) {
        let status: Status
        do throws(Errno) { status = try backing.status() } catch { throw .store(error) }
        try context.epochs.changed.made(status)
        let header = file.header
        let state = FileState(
            header: header, size: 0, pageZero: .pending,
            durability: Durability(isListed: true, pageZeroIsOurs: true, isMarked: true),
            // There is no older one that could be put back, so a new file costs the table nothing.
            version: try context.epochs.epoch(encryptions: 0))
        let content = FileContent(
            context: context, backing: backing, inode: status.inode,
            keys: FileKeys(file.takeKey(), suite: header.suite), state: state, made: status.modified)
        return (content, status)
    }

    /// A header with a fresh key wrapped for it.
    /// - Parameter fileID: nil draws a new one.
    static func newFile(
        in context: ContentContext, class protectionClass: ProtectionClass, flags: FileFlags, fileID: ObjectID? = nil,
        _ access: Operation
    ) throws(VolumeError) -> NewFile {
        let drawn = try drawNew()
        let nonce = drawn.nonce
        var header = FileHeader(
            protectionClass: protectionClass, suite: context.geometry.suite, flags: flags, keyGeneration: 0,
            fileID: fileID ?? ObjectID(drawn.id))
        let key = drawn.takeKey()
        try context.keys.withState { (keys: borrowing HeldKeys) throws(VolumeError) in
            guard Access.isAllowed(access, class: protectionClass, state: keys.state(of: protectionClass)) else {
                throw .locked(protectionClass)
            }
            try wrap(keys, key, into: &header, context.keys.volumeID, nonce: nonce)
        }
        context.authenticate(&header)
        return NewFile(header: header, key: key)
    }

    private static func drawNew() throws(VolumeError) -> NewFileBytes {
        do throws(SodiumError) { return try NewFileBytes() } catch { throw VolumeError(error) }
    }

    static func randomKey() throws(VolumeError) -> SecretKey {
        do throws(SodiumError) { return try SecretKey.random() } catch { throw VolumeError(error) }
    }
}
