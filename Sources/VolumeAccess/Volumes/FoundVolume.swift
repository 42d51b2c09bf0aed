// A volume found by its path: its directory and its keybag, which is not verified yet.

package import BackingStore
package import CommandSupport
package import HostSystem
import KeyFiles
package import Keybag
import SodiumKit
package import VolumeFormat

/// The directory and the unverified keybag of a volume. To use the keybag, read it with `CheckedVolume`.
package struct FoundVolume {
    /// The path as typed.
    package let path: HostPath
    /// The volume's directory.
    package let directory: HostDirectory
    /// Distinguishes the directory from its copies.
    package let store: StateFileLayout.Store
    /// Its path, without following a link that someone may have put in its place.
    let typedPath: HostPath?
    /// Its keybag, unverified.
    package let bag: Keybag

    /// Opens the directory and parses the keybag.
    package init(_ path: HostPath, usePrevious: Bool = false) throws(CommandFailure) {
        let (directory, store) = try Self.open(path)
        try self.init(path, directory, store, typedPath: Self.plainAbsolute(path), usePrevious: usePrevious)
    }

    /// Parses the keybag in a directory that is open already.
    init(
        _ path: HostPath, _ directory: HostDirectory, _ store: StateFileLayout.Store, typedPath: HostPath?,
        usePrevious: Bool
    ) throws(CommandFailure) {
        self.path = path
        self.directory = directory
        self.store = store
        self.typedPath = typedPath
        let bytes: [UInt8]
        do throws(Errno) {
            bytes = try KeybagFile.read(in: directory, usePrevious: usePrevious)
        } catch .ENOENT {
            throw usePrevious ? KeybagAdvice.missingPrevious(path) : KeybagAdvice.missing(path, in: directory)
        } catch .EINVAL {
            let name = "\(usePrevious ? ReservedName.previousKeybag : ReservedName.keybag)"
            throw .init(
                .volume,
                "\(path): \(name) is not a regular file; someone has replaced it. Remove it, then \(KeybagAdvice.restoring(path))"
            )
        } catch {
            let name = "\(usePrevious ? ReservedName.previousKeybag : ReservedName.keybag)"
            throw .init(
                .failure,
                "\(path.appending(name)): the keybag cannot be read: \(SystemError.reason(of: error.rawValue)); change its owner or its permissions, or check the disk"
            )
        }
        do throws(KeybagError) { bag = try Keybag(parsing: bytes) } catch {
            throw ErrorMessages.keybag(error, path, isContradicted: LocalState.contradicts(keybag: bytes))
        }
    }

    /// The directory of a volume, with a keybag that comes from elsewhere.
    package init(_ path: HostPath, holding bag: Keybag) throws(CommandFailure) {
        self.path = path
        (directory, store) = try Self.open(path)
        typedPath = Self.plainAbsolute(path)
        self.bag = bag
    }

    private static func open(_ path: HostPath) throws(CommandFailure) -> (HostDirectory, StateFileLayout.Store) {
        let text = try text(path)
        let directory: HostDirectory
        do throws(Errno) {
            directory = try HostDirectory.open(path: text)
        } catch {
            throw ErrorMessages.store(error, path)
        }
        return (directory, try StateFileLayout.Store(directory, path))
    }

    /// Warns, for a command that only shows the keybag, if this machine would refuse it.
    package func warnIfRefused() {
        do throws(CommandFailure) {
            let (found, standing) = try LocalState.settled(self, usePrevious: false, isAlone: false)
            if let refusal = standing.refusal { throw LocalState.failure(refusal, found) }
        } catch {
            Output.error(error.message)
        }
    }

    /// The same volume with its keybag as it is now, read through the same directory.
    func readAgain(usePrevious: Bool) throws(CommandFailure) -> FoundVolume {
        try FoundVolume(path, directory, store, typedPath: typedPath, usePrevious: usePrevious)
    }

    /// An absolute path in its shortest form, with links unresolved.
    private static func plainAbsolute(_ path: HostPath) -> HostPath? {
        guard let absolute = try? path.absolute() else { return nil }
        let parts = absolute.bytes.split(separator: UInt8(ascii: "/")).filter { !$0.elementsEqual(".".utf8) }
        return HostPath(bytes: parts.flatMap { [UInt8(ascii: "/")] + $0 })
    }

    /// A path in the form for libfuse and the store.
    package static func text(_ path: HostPath) throws(CommandFailure) -> String {
        guard let text = String(validating: path.bytes, as: UTF8.self) else {
            throw .init(.usage, "\(path): the path is not UTF-8 text; rename the directory")
        }
        return text
    }

    /// The same volume with the keybag that has just been written.
    init(_ access: FoundVolume, holding bag: Keybag) {
        path = access.path
        directory = access.directory
        store = access.store
        typedPath = access.typedPath
        self.bag = bag
    }

    /// This store among the copies of the volume that this machine has seen.
    package func place() throws(CommandFailure) -> StoreIdentity { try StoreIdentity(bag.volumeID, store, typedPath) }
}
