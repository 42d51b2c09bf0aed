// Stores small secrets as files of a mount. This file finds and reads them.

import CLibrary
package import HostSystem
package import SodiumKit
import VolumeFormat

/// The secrets of one user in one mount.
///
/// An item is one file in `.secrets/items/`. Its name is 64 hexadecimal digits that are derived from its identifying
/// attributes. The file's content is the secret, its protection class is the item's, and its extended attribute
/// `user.secret` holds the attributes. They can therefore be read in every state of the volume.
///
/// Writers hold a lock (flock(2)) on `.secrets`. A writer that gets the lock and finds entries in `.secrets/staging`
/// knows that another writer was killed.
package struct SecretStore: Sendable {
    /// The longest secret, in bytes.
    package static let largestSecret = 65536

    static let recordAttribute = "user.secret"
    static let classAttribute = AttributeName.protection.description

    /// The mount's root.
    package let mount: HostPath
    let home: HostPath
    let items: HostPath
    let staging: HostPath
    let cache: SecretCache?
    /// The number of the mounted file system (`st_dev`).
    private let device: UInt64

    /// The secrets of a mounted volume. Makes no file or directory before the first item is stored. A program that searches
    /// often passes its cache.
    package init(_ entry: MountEntry, cache: SecretCache? = nil) {
        mount = entry.mountPoint
        device = entry.deviceNumber
        self.cache = cache
        home = mount.appending(".secrets")
        items = home.appending("items")
        staging = home.appending("staging")
    }

    /// The result of `list`.
    package struct Listing: Sendable {
        /// The items that match, sorted by account and then by file name.
        package var items: [SecretItem] = []
        /// Files that are not items, or whose attributes cannot be decoded.
        package var damaged: [HostPath] = []
    }

    /// The items that match a query, without their secrets. Works in every state of the volume.
    package func list(_ query: SecretQuery) throws(SecretError) -> Listing {
        var result = Listing()
        guard try isThere() else { return result }
        // A query with all identifying attributes needs to read only one file, or two if it does not say whether the item
        // is synchronizable.
        if let kind = query.kind, !query.ignoresCase, kind.identifying.allSatisfy({ query.attributes[$0] != nil }) {
            var names = [HostPath(SecretItem(kind, query.attributes, class: .none).name)]
            if kind != .desktop, query.attributes[KeychainAttribute.synchronizable] == nil {
                let flag = [KeychainAttribute.synchronizable: SecretAttribute.flag(true)]
                let both = query.attributes.merging(flag) { $1 }
                names.append(HostPath(SecretItem(kind, both, class: .none).name))
            }
            result = try found(names)
            result.items.removeAll { !query.matches($0) }
        } else if let known = try remembered(query) {
            result = known
        } else {
            let before = stamp()
            result = try found(try namesOfItems())
            if let before, before == stamp() {
                cache?.remember(.init(stamp: before, items: result.items, damaged: result.damaged), of: items)
            }
            result.items.removeAll { !query.matches($0) }
        }
        result.items.sort { ($0.account, $0.file) < ($1.account, $1.file) }
        return result
    }

    /// The item with a file name that `SecretItem.file` or `name` gave; nil if there is none or its attributes cannot be
    /// decoded. Works in every state of the volume.
    package func item(named name: String) throws(SecretError) -> SecretItem? {
        guard SecretItem.isName(name), try isThere(), case .item(let item) = try read(HostPath(name)) else {
            return nil
        }
        return item
    }

    /// The items in files with these names.
    private func found(_ names: [HostPath]) throws(SecretError) -> Listing {
        var result = Listing()
        for name in names {
            switch try read(name) {
            case .gone: continue
            case .unreadable: result.damaged.append(items.appending(bytes: name.bytes))
            case .item(let item): result.items.append(item)
            }
        }
        return result
    }

    /// The item whose identifying attributes are the query's and no others, if the query matches it. It costs one read.
    /// Works in every state of the volume.
    package func exact(_ query: SecretQuery) throws(SecretError) -> SecretItem? {
        guard let kind = query.kind, !query.ignoresCase else { return nil }
        let wanted = SecretItem(kind, query.attributes, class: .none)
        guard let found = try item(named: wanted.name), query.matches(found) else { return nil }
        return found
    }

    /// The item with a reference that `SecretItem.reference` gave; nil if there is none. Costs one read, unless the item's
    /// identifying attributes have changed since. Works in every state of the volume.
    package func item(reference: [UInt8]) throws(SecretError) -> SecretItem? {
        guard reference.count == 48 else { return nil }
        let name = Hexadecimal.text(Array(reference.prefix(32)))
        if let found = try item(named: name), found.reference == reference { return found }
        return try list(SecretQuery()).items.first { $0.reference == reference }
    }

    /// An item's secret, in locked memory. Throws `changed` if the item is no longer as it was read.
    package func secret(of item: SecretItem) throws(SecretError) -> SecretBytes {
        let file = try open(item)
        // Both are read from one open file, so the secret is that of these attributes whatever takes the file's name.
        let now = try Self.system { () throws(SystemError) in
            Self.decode(
                try ExtendedAttribute.read(Self.recordAttribute, of: file),
                try ExtendedAttribute.read(Self.classAttribute, of: file), HostPath(item.file))
        }
        guard now == item else { throw .changed }
        let size = try Self.system { () throws(SystemError) in try file.status().st_size }
        guard size <= Self.largestSecret else { throw .tooLong }
        var secret = try Self.memory(Int(size))
        let count: Int
        do throws(SystemError) {
            count = try secret.withMutableBytes { (span: inout MutableSpan<UInt8>) throws(SystemError) -> Int in
                try file.read(into: &span)
            }
        } catch {
            throw explain(error, item.protectionClass)
        }
        secret.shorten(to: count)
        return secret
    }

    /// The secret of an item as it is now. If another program has changed the item, `item` becomes the changed one.
    package func latestSecret(of item: inout SecretItem) throws(SecretError) -> SecretBytes {
        while true {
            do throws(SecretError) { return try secret(of: item) } catch {
                guard case .changed = error else { throw error }
            }
            guard let now = try self.item(named: item.file) else { throw .notFound }
            item = now
        }
    }

    private func open(_ item: SecretItem) throws(SecretError) -> Descriptor {
        do throws(SystemError) {
            return try Descriptor(opening: items.appending(item.file), O_RDONLY)
        } catch {
            throw explain(error, item.protectionClass)
        }
    }

    // MARK: Used by reading and writing

    enum Found {
        case gone
        case unreadable
        case item(SecretItem)
    }

    /// Reads an item from a file, without its secret. Works while the volume is locked.
    func read(_ name: HostPath) throws(SecretError) -> Found {
        let path = items.appending(bytes: name.bytes)
        do throws(SystemError) {
            let record = try ExtendedAttribute.read(Self.recordAttribute, of: path)
            let word = record == nil ? nil : try ExtendedAttribute.read(Self.classAttribute, of: path)
            return Self.decode(record, word, name).map { .item($0) } ?? .unreadable
        } catch {
            switch error.code {
            case ENOENT: return .gone
            case EIO: return .unreadable
            default: throw .system(error)
            }
        }
    }

    /// The item in a file with these attributes; nil if they are not those of an item.
    private static func decode(_ record: [UInt8]?, _ word: [UInt8]?, _ name: HostPath) -> SecretItem? {
        guard let record, var item = SecretRecord.decode(record), let word,
            let own = ProtectionClass(name: String(decoding: word, as: UTF8.self)),
            let file = String(validating: name.bytes, as: UTF8.self)
        else { return nil }
        item.protectionClass = own
        item.file = file
        return item
    }

    func namesOfItems() throws(SecretError) -> [HostPath] {
        do throws(SystemError) {
            return try FileStatus.names(in: items)
        } catch {
            if error.code == ENOENT { return [] }
            throw .system(error)
        }
    }

    /// Whether the directory of secrets exists. Throws `notOwn` if it belongs to another user or other users may write
    /// to it.
    func isThere() throws(SecretError) -> Bool {
        do throws(SystemError) {
            let status = try FileStatus.read(home)
            try checkMount(status)
            let isOwn = status.st_uid == geteuid() || Credentials.isRoot
            guard status.st_mode & S_IFMT == S_IFDIR, isOwn, status.st_mode & 0o022 == 0 else {
                throw SystemError(code: EPERM, call: "lstat", subject: home.description)
            }
            return true
        } catch {
            if error.code == ENOENT { return false }
            if error.code == EPERM { throw .notOwn(home) }
            throw .system(error)
        }
    }

    /// Throws ENOTCONN if a file is not on the mounted volume, because that has been unmounted in the meantime.
    func checkMount(_ status: stat) throws(SystemError) {
        guard UInt64(status.st_dev) == device else {
            throw SystemError(code: ENOTCONN, call: "fstat", subject: mount.description)
        }
    }

    /// Converts an error of an item's file. The files belong to this user, so a missing permission means that the class
    /// is closed.
    func explain(_ error: SystemError, _ protectionClass: ProtectionClass) -> SecretError {
        switch error.code {
        case ENOENT: .notFound
        case EACCES where protectionClass != .none: .locked(protectionClass)
        default: .system(error)
        }
    }

    static func system<Result: ~Copyable>(_ body: () throws(SystemError) -> Result) throws(SecretError) -> Result {
        do throws(SystemError) { return try body() } catch { throw .system(error) }
    }

    static func memory(_ count: Int) throws(SecretError) -> SecretBytes {
        do throws(SodiumError) { return try SecretBytes(byteCount: count) } catch { throw .memory(error) }
    }
}

extension SecretItem {
    /// Whether a text has the form of a file name: 64 hexadecimal digits.
    package static func isName(_ text: String) -> Bool {
        text.utf8.count == 64 && text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x66).contains($0) }
    }

    /// The account for sorting.
    fileprivate var account: String {
        if case .text(let text) = attributes["account"] { return text }
        return ""
    }
}
