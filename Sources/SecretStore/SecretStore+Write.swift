// Writes secrets. A file has its class before its first byte. A change is complete or has no effect. Only one process
// writes at a time.

import Glibc
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
    /// says, or throws `duplicate` if that is nil.
    package func add(
        _ item: SecretItem, secret: borrowing SecretBytes, replacing: Keeping? = nil
    ) throws(SecretError) {
        guard secret.byteCount <= Self.largestSecret else { throw .tooLong }
        try makeDirectories()
        let lock = try takeLock()
        var item = item
        item.file = item.name
        item.created = Self.now()
        item.modified = item.created
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
        _ = consume lock
    }

    /// Replaces an item by `changed`, with a new secret or its present one. Its class must be open in both cases.
    package func update(
        _ item: SecretItem, to changed: SecretItem, secret: borrowing SecretBytes
    ) throws(SecretError) {
        guard secret.byteCount <= Self.largestSecret else { throw .tooLong }
        let lock = try takeLock()
        var changed = changed
        changed.created = item.created
        changed.modified = Self.now()
        let name = changed.name
        changed.file = name
        guard case .item = try read(HostPath(item.file)) else { throw .notFound }
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
        _ = consume lock
    }

    /// Removes an item. Works in every state of the volume.
    package func delete(_ item: SecretItem) throws(SecretError) {
        let lock = try takeLock()
        do throws(SystemError) {
            try FileChange.removeFile(items.appending(item.file))
            try synchronizeItems()
        } catch {
            throw error.code == ENOENT ? .notFound : .system(error)
        }
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
    }

    private func clear(_ directory: HostPath) throws(SystemError) {
        for name in try FileStatus.names(in: directory) {
            try FileChange.removeFile(directory.appending(bytes: name.bytes))
        }
        try FileChange.removeDirectory(directory)
    }

    /// Writes the complete item in a directory whose default is the item's class, makes it durable, and lets the caller
    /// move it into place.
    private func stage(
        _ item: SecretItem, _ secret: borrowing SecretBytes, _ place: (HostPath) throws(SystemError) -> Void
    ) throws(SecretError) {
        guard let record = SecretRecord.encode(item) else { throw .tooManyAttributes }
        let directory = staging.appending("\(getpid())-\(randomUInt32())")
        let file = directory.appending("item")
        do throws(SystemError) {
            try FileChange.makeDirectory(directory)
            try setClass(item.protectionClass, of: directory)
            try write(item, record, secret, file)
            try place(file)
            try FileChange.removeDirectory(directory)
            try synchronizeItems()
        } catch {
            // The next writer removes what cannot be removed now.
            try? clear(directory)
            throw error.code == EEXIST ? .duplicate : explain(error, item.protectionClass)
        }
    }

    private func write(
        _ item: SecretItem, _ record: [UInt8], _ secret: borrowing SecretBytes, _ file: HostPath
    ) throws(SystemError) {
        let handle = try Descriptor(opening: file, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
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

    private static func now() -> Int64 { Int64(WallClock.nanoseconds) }
}
