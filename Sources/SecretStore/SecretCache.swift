// Remembers the attributes of the items in a store, so that a search does not read every file again.

import CLibrary
import HostSystem
import VolumeFormat

/// The items of the stores that one program uses, as they were when it last looked, without their secrets.
///
/// A search that many programs make is for an item that is not there, before they add it. Without a cache it reads the
/// attributes of every item, so that storing n items costs n² reads. What is remembered counts while the directory has the
/// same stamp. Every writer changes the stamp after each change. A match is always read again from its file, so a
/// remembered item is at most one that is not found.
package final class SecretCache: Sendable {
    /// What a directory of items is known by: the directory, its time of change, and the mark of the last writer. The mark
    /// tells changes apart that the clock does not: it moves every few milliseconds only.
    struct Stamp: Equatable {
        let device: dev_t
        let inode: ino_t
        let seconds: Int
        let nanoseconds: Int
        let mark: [UInt8]
    }

    /// Everything that a listing has found.
    struct Contents {
        var stamp: Stamp
        let damaged: [HostPath]
        private var items: [String: SecretItem] = [:]
        // The files of the items with an account, which most searches name.
        private var files: [SecretAttribute?: Set<String>] = [:]

        init(stamp: Stamp, items found: [SecretItem], damaged: [HostPath]) {
            self.stamp = stamp
            self.damaged = damaged
            for item in found { add(item) }
        }

        mutating func add(_ item: SecretItem) {
            remove(item.file)
            items[item.file] = item
            files[item.attributes["account"], default: []].insert(item.file)
        }

        mutating func remove(_ file: String) {
            guard let old = items.removeValue(forKey: file) else { return }
            let account = old.attributes["account"]
            files[account]?.remove(file)
            if files[account]?.isEmpty == true { files[account] = nil }
        }

        /// The items that match a query.
        func matches(_ query: SecretQuery) -> [SecretItem] {
            guard !query.ignoresCase, let account = query.attributes["account"] else {
                return items.values.filter { query.matches($0) }
            }
            return (files[account] ?? []).compactMap { items[$0] }.filter { query.matches($0) }
        }
    }

    // For each directory of items. The lock protects the dictionary.
    private let known = Lock<[HostPath: Contents]>([:])

    /// An empty cache. It belongs to a program, and all stores of the program share it.
    package init() {}

    /// What is known of a directory with this stamp.
    func contents(of directory: HostPath, at stamp: Stamp?) -> Contents? {
        known.withLock { known in known[directory].flatMap { $0.stamp == stamp ? $0 : nil } }
    }

    /// Remembers what a listing has found.
    func remember(_ contents: Contents, of directory: HostPath) {
        known.withLock { known in known[directory] = contents }
    }

    /// Takes over a change that this program has made under the writers' lock. If another program has changed something
    /// since the last look, everything is forgotten.
    func change(_ directory: HostPath, from before: Stamp?, to after: Stamp?, _ body: (inout Contents) -> Void) {
        known.withLock { known in
            // Taken out, so that the change is made in place.
            guard var contents = known.removeValue(forKey: directory), let after, contents.stamp == before else {
                return
            }
            contents.stamp = after
            body(&contents)
            known[directory] = contents
        }
    }

    /// Forgets a directory.
    func forget(_ directory: HostPath) {
        known.withLock { known in known[directory] = nil }
    }
}

extension SecretStore {
    /// The mark of the last writer, on the directory of the secrets.
    static let markAttribute = "user.secret.writer"

    /// What the directory of items is known by now; nil if there is none, or without a cache.
    func stamp() -> SecretCache.Stamp? {
        guard cache != nil, let status = try? FileStatus.read(items),
            let mark = try? ExtendedAttribute.read(Self.markAttribute, of: home) ?? []
        else { return nil }
        return .init(
            device: status.st_dev, inode: status.st_ino, seconds: status.st_mtim.tv_sec,
            nanoseconds: status.st_mtim.tv_nsec, mark: mark)
    }

    /// Ends a change: marks the directory as changed for other programs, and takes the change over into this one's cache.
    /// The writers' lock is held.
    func finish(from before: SecretCache.Stamp?, removing old: String?, adding new: SecretItem?) {
        // The change is complete. Without a mark, the time of the directory still tells it, unless another change follows
        // in the same few milliseconds.
        try? ExtendedAttribute.write(Self.markAttribute, of: home, Self.newMark())
        cache?.change(items, from: before, to: stamp()) { contents in
            if let old { contents.remove(old) }
            if let new { contents.add(new) }
        }
    }

    /// The items that match a query, by what the cache remembers. Each is read again. Nil if the cache does not know the
    /// directory as it is now.
    func remembered(_ query: SecretQuery) throws(SecretError) -> Listing? {
        guard let cache, let contents = cache.contents(of: items, at: stamp()) else { return nil }
        var result = Listing()
        result.damaged = contents.damaged
        for item in contents.matches(query) {
            guard case .item(let present) = try read(HostPath(item.file)), query.matches(present) else {
                cache.forget(items)
                return nil
            }
            result.items.append(present)
        }
        return result
    }
}
