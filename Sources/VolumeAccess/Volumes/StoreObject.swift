// One object of a store, found by a path that the user typed.

package import BackingStore
import CLibrary
package import CommandSupport
package import HostSystem
package import KeyFiles
package import VolumeFormat

/// An object of a store, or a copy of one outside of any store. It is reached without following a link of the store.
package struct StoreObject {
    /// The path as typed.
    package let typed: HostPath
    /// The absolute path, without links.
    package let path: HostPath
    /// The store: the nearest directory at or above the object that has a keybag.
    package let root: HostPath?
    /// The store's directory.
    package let store: HostDirectory?
    /// The object's path from the store's root. Empty for the root, and without a store.
    package let components: [EntryName]
    let status: Status
    /// The directory that it is in, and its name there. Nil for the root of a store.
    package let entry: (BackingDirectory, EntryName)?

    /// Whether it is a file, a directory or something else.
    package var kind: FileKind { status.kind }
    /// Whether it is the root of a store.
    package var isRoot: Bool { root != nil && components.isEmpty }

    /// Whether its name is that of a companion, which holds a long name.
    package var isCompanion: Bool { components.last.map { ReservedName.kind(of: $0.bytes.span) } == .companion }

    /// - Parameter isAlone: whether it may be outside of any store.
    package init(_ typed: HostPath, isAlone: Bool) throws(CommandFailure) {
        self.typed = typed
        let (path, root) = try Self.find(typed)
        (self.path, self.root) = (path, root)
        if let entry = try? MountTable.entry(containing: path), entry.isProtectfs {
            throw .init(
                .failure, "\(typed): on a mount; inspect takes its encrypted file, which protectfs path shows")
        }
        var names: [EntryName] = []
        var parent: BackingDirectory?
        do throws(Errno) {
            if let root {
                for name in HostPath(bytes: path.bytes.dropFirst(root.bytes.count)).components {
                    guard let name = EntryName(name) else { throw .ENAMETOOLONG }
                    names.append(name)
                }
                let store = try Self.open(root)
                self.store = store
                parent = store
                var above = root
                for name in names.dropLast() {
                    above = above.appending(bytes: Array(name.bytes))
                    try Self.requireAccess(above, R_OK | X_OK)
                    parent = try parent?.openDirectory(name)
                }
            } else {
                store = nil
                if isAlone { parent = try Self.open(path.parent) }
            }
            components = names
            if let parent, let name = names.last ?? (root == nil ? EntryName(path.lastComponent.bytes) : nil) {
                entry = (parent, name)
                status = try parent.status(of: name)
            } else if let store {
                entry = nil
                status = try store.status()
            } else {
                throw .ENODATA
            }
            if status.kind == .regular || status.kind == .directory { try Self.requireAccess(path, R_OK) }
        } catch .ENODATA {
            throw .init(
                .volume, "\(typed): no directory above has \(ReservedName.keybag); name the volume with --volume")
        } catch {
            throw .init(.failure, "\(typed): \(SystemError.reason(of: error.rawValue))")
        }
    }

    /// The object and its store. A link outside of any store is replaced by its target.
    private static func find(_ typed: HostPath) throws(CommandFailure) -> (HostPath, root: HostPath?) {
        do throws(SystemError) {
            let object = try typed.resolvedObject()
            let status = try FileStatus.read(object)
            if let root = root(of: object) { return (object, root) }
            guard status.st_mode & S_IFMT == S_IFLNK, let target = try? typed.resolved() else { return (object, nil) }
            return (target, root(of: target))
        } catch {
            throw .init(error.code == ENOTCONN ? .notMounted : .failure, "\(typed): \(error.reason)")
        }
    }

    private static func root(of object: HostPath) -> HostPath? {
        var directory = object
        while true {
            let keybag = directory.appending("\(ReservedName.keybag)")
            if let status = try? FileStatus.read(keybag), status.st_mode & S_IFMT == S_IFREG { return directory }
            guard directory.parent != directory else { return nil }
            directory = directory.parent
        }
    }

    private static func open(_ path: HostPath) throws(Errno) -> HostDirectory {
        guard let text = String(validating: path.bytes, as: UTF8.self) else { throw .EINVAL }
        return try HostDirectory.open(path: text)
    }

    /// Refuses an object that this user cannot read. A mount would give itself the permission for a moment, which is a change.
    private static func requireAccess(_ path: HostPath, _ mode: Int32) throws(Errno) {
        do throws(SystemError) { try FileStatus.requireAccess(path, mode) } catch { throw Errno(rawValue: error.code) }
    }

    /// The object as a file.
    package func file() throws(VolumeError) -> BackingFile {
        guard let (directory, name) = entry else { throw .invalid }
        do throws(Errno) { return try directory.openFile(name, .readOnly) } catch { throw .store(error) }
    }

    /// The object as a directory.
    package func directory() throws(VolumeError) -> BackingDirectory {
        guard let (directory, name) = entry else {
            guard let store else { throw .invalid }
            return store
        }
        do throws(Errno) { return try directory.openDirectory(name) } catch { throw .store(error) }
    }

    /// Whether the object is in a reserved directory, and not that directory itself.
    package func isInside(_ kind: ReservedName.Kind) -> Bool {
        components.dropLast().contains { ReservedName.kind(of: $0.bytes.span) == kind }
    }
}
