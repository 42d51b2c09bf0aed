// Writes secrets. A file has its class before its first byte. A change is complete or has no effect. Only one process
// writes at a time.

import CLibrary
import HostSystem
package import SodiumKit
import VolumeFormat

extension SecretStore {
    /// The parts of a replaced item that the new item keeps.
    package struct Keeping: Sendable {
        /// Whether the new item keeps the class.
        package var keepsClass: Bool
        /// The attributes that the new item does not keep. It keeps all others that it does not have itself.
        package var dropped: Set<String>

        /// Keeps the class or not, and every attribute that is not in `dropped`.
        package init(class keepsClass: Bool, dropping dropped: Set<String> = []) {
            self.keepsClass = keepsClass
            self.dropped = dropped
        }
    }

    /// Stores an item. If an item with the same identifying attributes exists, the call replaces it as `replacing`
    /// says, or throws `duplicate` if that is nil. Returns the item as it is stored.
    @discardableResult
    package func add(
        _ item: SecretItem, secret: borrowing SecretBytes, replacing: Keeping? = nil
    ) throws(SecretError) -> SecretItem {
        guard secret.byteCount <= Self.largestSecret else { throw .tooLong }
        try makeDirectories()
        let lock = try takeLock()
        let before = stamp()
        var item = item
        item.file = item.name
        let now = Self.now()
        if item.created == 0 { item.created = now }
        if item.modified == 0 { item.modified = now }
        switch try read(HostPath(item.file)) {
        case .gone: break
        case .unreadable: if replacing == nil { throw .duplicate }
        case .item(let old):
            guard let replacing else { throw .duplicate }
            item.created = old.created
            if replacing.keepsClass { item.protectionClass = old.protectionClass }
            let kept = old.attributes.filter { !replacing.dropped.contains($0.key) }
            item.attributes.merge(kept) { given, _ in given }
        }
        try stage(item, secret) { staged throws(SystemError) in
            try FileChange.rename(staged, to: items.appending(item.file), replacing: replacing != nil)
        }
        finish(from: before, removing: nil, adding: item)
        _ = consume lock
        return item
    }

    /// Replaces an item by `changed`, a changed copy of it, with a new secret. Throws `changed` if the item is no longer as
    /// it was read.
    package func update(
        _ item: SecretItem, to changed: SecretItem, secret: borrowing SecretBytes
    ) throws(SecretError) {
        guard secret.byteCount <= Self.largestSecret else { throw .tooLong }
        let lock = try takeLock()
        try replace(item, by: changed, secret)
        _ = consume lock
    }

    /// The same with the item's present secret, so its class must be open.
    package func update(_ item: SecretItem, to changed: SecretItem) throws(SecretError) {
        let lock = try takeLock()
        try replace(item, by: changed, try secret(of: item))
        _ = consume lock
    }

    /// Called with the lock held.
    private func replace(
        _ item: SecretItem, by changed: SecretItem, _ secret: borrowing SecretBytes
    ) throws(SecretError) {
        let before = stamp()
        var changed = changed
        changed.modified = Self.now()
        let name = changed.name
        changed.file = name
        // Without this the changes of another program would be lost.
        guard case .item(let now) = try read(HostPath(item.file)) else { throw .notFound }
        guard now == item else { throw .changed }
        if name != item.file {
            if case .gone = try read(HostPath(name)) {} else { throw .duplicate }
        }
        // The content is replaced first and the name second, so that exactly one item exists at any time. If the
        // process is killed in between, the directory in staging remains, and the next writer gives the item the name
        // for its attributes.
        try stage(changed, secret) { staged throws(SystemError) in
            try FileChange.rename(staged, to: items.appending(item.file), replacing: true)
            guard name != item.file else { return }
            try FileChange.rename(items.appending(item.file), to: items.appending(name), replacing: false)
        }
        finish(from: before, removing: item.file, adding: changed)
    }

    /// Removes an item. Works in every state of the volume. Throws `changed` if the item is no longer as it was read.
    package func delete(_ item: SecretItem) throws(SecretError) {
        let lock = try takeLock()
        // Another program may have changed it so that it is not the one to delete, or made another one of this name.
        switch try read(HostPath(item.file)) {
        case .gone: throw .notFound
        case .item(let now) where now == item: break
        case .item, .unreadable: throw .changed
        }
        let before = stamp()
        do throws(SystemError) {
            try FileChange.removeFile(items.appending(item.file))
            try synchronizeItems()
        } catch {
            throw error.code == ENOENT ? .notFound : .system(error)
        }
        finish(from: before, removing: item.file, adding: nil)
        _ = consume lock
    }

    // MARK: Steps

    /// Makes missing directories, in every state of the volume. Their default class has no effect, because files are
    /// not made in them but renamed into them.
    private func makeDirectories() throws(SecretError) {
        if !(try isThere()) {
            try make(home)
            guard try isThere() else { throw .notFound }
        }
        try make(items)
        try make(staging)
    }

    private func make(_ path: HostPath) throws(SecretError) {
        do throws(SystemError) {
            try FileChange.makeDirectory(path)
        } catch {
            guard error.code == EEXIST else { throw .system(error) }
        }
    }

    private func setClass(_ protectionClass: ProtectionClass, of path: HostPath) throws(SystemError) {
        try ExtendedAttribute.write(Self.classAttribute, of: path, Array(protectionClass.canonicalName.utf8))
    }

    /// Waits for the lock, which is held as long as the descriptor is open, and removes what a killed writer has left.
    private func takeLock() throws(SecretError) -> Descriptor {
        guard try isThere() else { throw .notFound }
        let directory = try Self.system { () throws(SystemError) in
            try Descriptor(opening: home, O_RDONLY | O_DIRECTORY)
        }
        while flock(directory.number, LOCK_EX) != 0 {
            guard errno == EINTR else { throw .system(.last("flock", home.description)) }
        }
        try clearStaging()
        return directory
    }

    private func clearStaging() throws(SecretError) {
        let left: [HostPath]
        do throws(SystemError) {
            left = try FileStatus.names(in: staging)
        } catch {
            if error.code == ENOENT { return }
            throw .system(error)
        }
        guard !left.isEmpty else { return }
        // The names are repaired first. If this is interrupted too, the directory in staging still marks the need for
        // it.
        for name in try namesOfItems() {
            guard case .item(let item) = try read(name), item.name != item.file else { continue }
            try Self.system { () throws(SystemError) in
                do throws(SystemError) {
                    try FileChange.rename(items.appending(item.file), to: items.appending(item.name), replacing: false)
                } catch {
                    // Another machine has made the same item in the meantime. Both remain and are listed.
                    if error.code != EEXIST { throw error }
                }
            }
        }
        for name in left {
            try Self.system { () throws(SystemError) in try clear(staging.appending(bytes: name.bytes)) }
        }
        // The killed writer may have changed something and not said so.
        try? ExtendedAttribute.write(Self.markAttribute, of: home, Self.newMark())
    }

    private func clear(_ directory: HostPath) throws(SystemError) {
        for name in try FileStatus.names(in: directory) {
            try FileChange.removeFile(directory.appending(bytes: name.bytes))
        }
        try FileChange.removeDirectory(directory)
    }

    /// Writes the complete item in a directory whose default is the item's class, makes it durable, and lets the caller
    /// move it into place. Called with the lock held.
    func stage(
        _ item: SecretItem, _ secret: borrowing SecretBytes, _ place: (HostPath) throws(SystemError) -> Void
    ) throws(SecretError) {
        guard let record = SecretRecord.encode(item) else { throw .tooManyAttributes }
        let directory = staging.appending("\(getpid())-\(randomUInt32())")
        let file = directory.appending("item")
        var isWritten = false
        do throws(SystemError) {
            try FileChange.makeDirectory(directory)
            try setClass(item.protectionClass, of: directory)
            try write(item, record, secret, file)
            isWritten = true
            try place(file)
            try FileChange.removeDirectory(directory)
            try synchronizeItems()
        } catch {
            // If the file has been moved, its name may not be that of its attributes yet. The directory then remains, and
            // has the next writer repair the name. That writer also removes what cannot be removed now.
            let isMoved = isWritten && (try? FileStatus.read(file)) == nil
            if !isMoved { try? clear(directory) }
            cache?.forget(items)
            try? ExtendedAttribute.write(Self.markAttribute, of: home, Self.newMark())
            throw error.code == EEXIST ? .duplicate : explain(error, item.protectionClass)
        }
    }

    private func write(
        _ item: SecretItem, _ record: [UInt8], _ secret: borrowing SecretBytes, _ file: HostPath
    ) throws(SystemError) {
        let handle = try Descriptor(opening: file, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
        // A plain directory would keep the secret as it is.
        try checkMount(try handle.status())
        // The class is set explicitly, so that it counts as chosen. Otherwise an item that replaces one of a stronger
        // class would keep that class.
        try setClass(item.protectionClass, of: file)
        try ExtendedAttribute.write(Self.recordAttribute, of: file, record)
        try secret.withBytes { bytes throws(SystemError) in try handle.write(bytes) }
        guard fsync(handle.number) == 0 else { throw .last("fsync", file.description) }
    }

    private func synchronizeItems() throws(SystemError) {
        let directory = try Descriptor(opening: items, O_RDONLY | O_DIRECTORY)
        guard fsync(directory.number) == 0 else { throw .last("fsync", items.description) }
    }

    /// A mark that no other writer has made.
    static func newMark() -> [UInt8] {
        let bytes: InlineArray<16, UInt8> = randomInlineBytes()
        return bytes.indices.map { bytes[$0] }
    }

    private static func now() -> Int64 { Int64(clamping: WallClock.nanoseconds) }
}
