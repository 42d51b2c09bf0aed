// Stores small secrets as files of a mount. This file finds and reads them.

import Glibc
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

    /// The secrets of the volume that is mounted there. Makes no file or directory before the first item is stored.
    package init(mount: HostPath) {
        self.mount = mount
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
        // A query with all identifying attributes needs to read only one file.
        let names: [HostPath]
        if let kind = query.kind, !query.ignoresCase, kind.identifying.allSatisfy({ query.attributes[$0] != nil }) {
            names = [HostPath(SecretItem(kind, query.attributes, class: .none).name)]
        } else {
            names = try namesOfItems()
        }
        for name in names {
            let path = items.appending(bytes: name.bytes)
            switch try read(name) {
            case .gone: continue
            case .unreadable: result.damaged.append(path)
            case .item(let item): if query.matches(item) { result.items.append(item) }
            }
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

    /// An item's secret, in locked memory.
    package func secret(of item: SecretItem) throws(SecretError) -> SecretBytes {
        let file = try open(item)
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
            guard let record = try ExtendedAttribute.read(Self.recordAttribute, of: path),
                var item = SecretRecord.decode(record),
                let word = try ExtendedAttribute.read(Self.classAttribute, of: path),
                let own = ProtectionClass(name: String(decoding: word, as: UTF8.self)),
                let file = String(validating: name.bytes, as: UTF8.self)
            else { return .unreadable }
            item.protectionClass = own
            item.file = file
            return .item(item)
        } catch {
            switch error.code {
            case ENOENT: return .gone
            case EIO: return .unreadable
            default: throw .system(error)
            }
        }
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
            let isOwn = status.st_uid == geteuid() || geteuid() == 0
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
