// Writing secrets: the class before the first byte, whole or not at all, one writer at a time.

import Glibc
import HostSystem
package import SodiumKit
import VolumeFormat

extension SecretStore {
    /// What stays of an item that is replaced.
    package struct Keeping: Sendable {
        /// Whether its class does.
        package var keepsClass: Bool
        /// The attributes that do not; all others do, unless the new item has them.
        package var dropped: Set<String>

        /// The class or not, and every attribute but those.
        package init(class keepsClass: Bool, dropping dropped: Set<String> = []) {
            self.keepsClass = keepsClass
            self.dropped = dropped
        }
    }

    /// Stores an item; one with the same identifying attributes is `duplicate`, or replaced where it is said what stays.
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

    /// Replaces an item by `changed`, with a new secret or its own; its class has to be open in either case.
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
        // First the content, then the name: there is one item at every instant. Killed in between, the directory in
        // staging is left, and the next writer gives the item the name that its attributes ask for.
        try stage(changed, secret) { staged throws(SystemError) in
            try FileChange.rename(staged, to: items.appending(item.file), replacing: true)
            guard name != item.file else { return }
            try FileChange.rename(items.appending(item.file), to: items.appending(name), replacing: false)
        }
        _ = consume lock
    }

    /// Removes an item; works in every state of the volume.
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

    /// Makes what is missing, in every state of the volume. No file is ever made in these directories, only renamed into one:
    /// their default class has no part in it.
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

    /// Waits for the lock, which lasts as long as the descriptor, and clears away what a killed writer has left.
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
        // Names first: should this be interrupted too, the mark for it is still there.
        for name in try namesOfItems() {
            guard case .item(let item) = try read(name), item.name != item.file else { continue }
            try Self.system { () throws(SystemError) in
                do throws(SystemError) {
                    try FileChange.rename(items.appending(item.file), to: items.appending(item.name), replacing: false)
                } catch {
                    // Another machine has made the same item meanwhile: both stay, and both are listed.
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

    /// Writes the item whole in a directory whose default is the item's class, makes it durable, and has it put into place.
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
            // What cannot be cleared now is cleared by the next writer.
            try? clear(directory)
            throw error.code == EEXIST ? .duplicate : explain(error, item.protectionClass)
        }
    }

    private func write(
        _ item: SecretItem, _ record: [UInt8], _ secret: borrowing SecretBytes, _ file: HostPath
    ) throws(SystemError) {
        let handle = try Descriptor(opening: file, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
        // Named once more, so that it counts as chosen: replacing an item of a stronger class must not keep that class.
        try setClass(item.protectionClass, of: file)
        try ExtendedAttribute.write(Self.recordAttribute, of: file, record)
        try secret.withBytes { bytes throws(SystemError) in try handle.write(bytes) }
        guard fsync(handle.number) == 0 else { throw .last("fsync", file.description) }
    }

    private func synchronizeItems() throws(SystemError) {
        let directory = try Descriptor(opening: items, O_RDONLY | O_DIRECTORY)
        guard fsync(directory.number) == 0 else { throw .last("fsync", items.description) }
    }

    private static func now() -> Int64 {
        var time = timespec()
        unsafe clock_gettime(CLOCK_REALTIME, &time)
        return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
    }
}
