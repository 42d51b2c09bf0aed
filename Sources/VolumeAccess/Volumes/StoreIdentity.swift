// Finds the state file and the device key of a store. A copy of a volume has the same UUID, and must not change them.

package import BackingStore
import CLibrary
package import CommandSupport
package import HostSystem
import Keybag
package import VolumeFormat

/// A store among those of one UUID that this machine has seen (docs/judge/volume-format.md 4.1).
package struct StoreIdentity {
    /// 1 for the store that was seen first, whose files are `UUID.state` and `UUID.key`. The files of other stores have the
    /// number in their names.
    package let number: Int
    /// The store as it is now.
    let store: StateFileLayout.Store
    /// The path of the store that was seen first, if this is another one.
    package let original: HostPath?
    /// Whether this machine sees the store for the first time, and knows another one of its UUID.
    package let isNewCopy: Bool

    /// Finds a store's place: by the directory itself, or by its path, or the first free place.
    ///
    /// A damaged state file may be this store's own, unless another state file names the store.
    /// - Parameter typedPath: the absolute path with its links. A link that replaces a store's directory is checked by that
    ///   store's state, like any other directory at its path.
    init(_ volume: VolumeID, _ store: StateFileLayout.Store, _ typedPath: HostPath?) throws(CommandFailure) {
        var store = store
        let (known, damage) = Self.readableStates(of: volume)
        let found =
            known.first { $0.state.layout.store?.isSameDirectory(as: store) == true }
            ?? known.first { $0.state.layout.store?.path == store.path }
            ?? known.first { typedPath != nil && $0.state.layout.store?.path == typedPath?.bytes }
            ?? known.first { $0.number == 1 && $0.state.layout.store == nil }
        if let typedPath, found?.state.layout.store?.path == typedPath.bytes { store.path = typedPath.bytes }
        if found == nil, let damage { throw damage }
        let isFirst = !known.contains { $0.number == 1 }
        isNewCopy = found == nil && !isFirst
        number = found?.number ?? (isFirst ? 1 : (known.last?.number ?? 1) + 1)
        self.store = store
        let first = known.first { $0.number == 1 }?.state.layout.store?.path
        original = number == 1 ? nil : first.map { HostPath(bytes: $0) }
    }

    /// The path of a new device key for this store.
    package func deviceKey(_ volume: VolumeID) -> HostPath { LocalFile.deviceKey(of: volume, number: number) }

    /// A note for the user before this store's keys are changed. Nil for the store that was seen first.
    package func note(_ path: HostPath) -> String? {
        guard let original else { return nil }
        return """
            protectfs: \(path) is a copy of the volume at \(original), or was moved from another file system: its passphrases \
            and its device key are changed here only, and what this machine knows of it is kept apart.
            """
    }

    /// A warning for the user when a store is mounted for the first time, and this machine knows another one of its UUID. Nil
    /// otherwise.
    ///
    /// If the other one is still there, this is a copy. If not, it was moved, or restored from a backup.
    package func warning(_ path: HostPath, _ volume: VolumeID) -> String? {
        guard isNewCopy else { return nil }
        let tolerated = "crash damage is tolerated in it until a complete protectfs fsck"
        guard let original else {
            return "protectfs: warning: \(path) is a copy of the volume seen before: \(tolerated)."
        }
        guard Self.holds(original, volume) else {
            return """
                protectfs: warning: \(path) is a copy of the volume that was at \(original) and is not there now, as after a \
                move or a restore: \(tolerated).
                """
        }
        return """
            protectfs: warning: \(path) is a copy of the volume at \(original), which is still there. What is written from now on \
            is in this copy only, and a passphrase that is changed or removed in one still opens the other. If you only want \
            to read the copy, unmount it and use -o ro. In it, \(tolerated).
            """
    }

    /// Whether a volume is at a path: by the UUID in its keybag, unverified.
    private static func holds(_ path: HostPath, _ volume: VolumeID) -> Bool {
        let keybag = path.appending("\(ReservedName.keybag)")
        guard let file = try? Descriptor(opening: keybag, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY),
            let bytes = try? file.readAll(limit: 32), bytes.count == 32
        else { return false }
        return VolumeID(bytes.span, at: 16) == volume
    }

    /// The state files of a volume with their numbers, in ascending order.
    static func states(of volume: VolumeID) throws(CommandFailure) -> [(number: Int, state: StateFile)] {
        let (known, damage) = readableStates(of: volume)
        if let damage { throw damage }
        return known
    }

    /// The readable ones, and the error of another one.
    static func readableStates(
        of volume: VolumeID
    ) -> (known: [(number: Int, state: StateFile)], damage: CommandFailure?) {
        var known: [(number: Int, state: StateFile)] = []
        var damage: CommandFailure?
        for number in LocalFile.stateNumbers(of: volume) {
            do throws(CommandFailure) {
                if let state = try LocalState.load(volume, number) { known.append((number, state)) }
            } catch { damage = error }
        }
        return (known, damage)
    }
}

extension StateFileLayout.Store {
    /// The directory as text that is the same as long as it is this one, wherever its path leads.
    package var identityBytes: [UInt8] { Array("\(inode) \(born) \(fileSystem)".utf8) }

    /// A volume's directory as it is now, seen at `path`.
    package init(_ directory: HostDirectory, _ path: HostPath) throws(CommandFailure) {
        let identity: DirectoryIdentity
        do throws(Errno) { identity = try directory.identity() } catch { throw ErrorMessages.store(error, path) }
        let resolved: HostPath
        do throws(SystemError) { resolved = try path.resolved() } catch { throw ErrorMessages.system(error) }
        self.init(
            inode: identity.inode, born: (identity.born.seconds, UInt32(clamping: identity.born.nanoseconds)),
            fileSystem: identity.fileSystem, path: resolved.bytes)
    }
}
