// `protectfs erase`: destroys the keys of a volume, so that it can never be read again.

import BackingStore
import CLibrary
import CommandSupport
import Control
import HostSystem
import KeyFiles
import Keybag
import ProtectedVolume
import VolumeAccess
import VolumeFormat

extension Command {
    static let erase = Command(
        "erase", .volumes, [.volume], "Destroys the keys of a volume, so that nobody can read it any more.",
        details: """
            erase destroys the device key, the device keys that recovery use has replaced, the state file, and the keybag with
            its predecessor, in this order, whatever version of protectfs made them. It overwrites each file to the end of its last block, waits until that is on
            disk, reads it back without the page cache, and removes it. The encrypted files stay; remove them when you
            like. On a terminal, erase asks you to type the name of the volume's directory. If it is interrupted, the
            volume still opens, or a second run finishes the work. erase refuses a mounted volume.
            """,
        more: """
            A key file is destroyed if it opens this keybag. If the keybag is damaged or newer, so that nothing can tell, the
            key file is destroyed if this machine has used this volume before, as its state file shows; otherwise erase
            refuses, and --device-key names the file to destroy. A file that is not a key is left alone, and reported. erase refuses a device key that is a symbolic link or has several names. A keybag with other names is
            not overwritten: erase removes its name in the volume, and fails if the file held keys. A device key that
            also opens another store of the volume on this machine is destroyed only if --device-key names it.

            erase says "Verified" only if it checked that the file system overwrites in place (ext4 and XFS), the blocks are the
            same as before, and the disk returned what was written. Overwriting proves nothing on ext4 with
            data=journal, for files inside inodes (inline_data), where a snapshot or a clone shares the blocks, and on Btrfs,
            ZFS, bcachefs, F2FS, overlayfs, tmpfs, FUSE and network file systems. Solid-state disks, disk images and
            snapshots below the file system can keep old blocks, which no program can check. Copies and backups of the volume
            stay readable to anyone who has its recovery code, a portable passphrase, or a copy of the device key and the
            passphrase.
            """,
        options: [
            .json, Option("yes", help: "do not ask for confirmation; for scripts"),
            Option(
                "device-key", value: .file, standard: Option.deviceKeyPlace,
                help: "destroy the device key in FILE; none keeps all device keys"),
        ],
        examples: [.init("protectfs erase ~/.documents", "Destroy the keys, after a confirmation.")], run: EraseRun.run)
}

/// The work of `erase`.
enum EraseRun {
    /// The facts of the volume, collected before anything is destroyed.
    struct Target {
        let path: HostPath
        let directory: HostDirectory
        /// Nil if an earlier run, or damage, has left no keybag that names it.
        var volume: VolumeID?
        /// Whether a device key, or this machine's record, has proved that.
        var isProven = false
        /// Device keys that are destroyed, the one in use first.
        var deviceKeys: [HostPath] = []
        /// Whether the volume has, or may have, a device key.
        var mayHaveDeviceKey = true
        /// Links to them, which are removed.
        var links: [HostPath] = []
        /// This machine's records of it, which are destroyed.
        var states: [HostPath] = []
        /// Records that are kept, and the reason.
        var keptStates: [StateFiles.Kept] = []
        /// Device keys that are kept, and the reason.
        var spared: [(HostPath, String)] = []
    }

    static func run(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        let target = try find(path, arguments)
        try refuseOtherCopies(target)
        if arguments.path("device-key") == nil { try refuseOtherStores(target) }
        // Two commands that change one keybag exclude each other.
        let lock = try target.volume.map { (volume) throws(CommandFailure) in try KeybagLock(volume) }
        if !arguments.has("yes") { try confirm(target) }
        var report = Report(target: target)
        do throws(CommandFailure) {
            try destroy(target, &report)
            try verify(target, report)
            record(target, .success)
        } catch {
            if !report.destroyed.isEmpty { record(target, error.code) }
            let done =
                report.destroyed.isEmpty
                ? "nothing was destroyed" : "\(Report.list(report.destroyed)) already destroyed"
            throw .init(error.code, "\(error.message); \(done); run protectfs erase again")
        }
        withExtendedLifetime(lock) {}
        return report.say(isJSON: arguments.has("json"))
    }

    /// All copies of the volume use the device key. A copy that is mounted would be lost when it is unmounted.
    private static func refuseOtherCopies(_ target: Target) throws(CommandFailure) {
        guard let volume = target.volume, !target.deviceKeys.isEmpty else { return }
        // A stranger could mount a copy of the keybag, or only say so, and so keep keys from being destroyed.
        for mount in StoreProof.trusted(try MountLookup.known(), of: target.path) {
            guard volumeID(at: mount.source) == volume,
                !StoreProof.counting([mount], of: mount.source, ownedAs: target.path).isEmpty
            else { continue }
            throw .init(
                .busy,
                "\(target.path): a copy of this volume with the same device key, \(mount.source), is mounted at \(mount.mountPoint); unmount it first. Nothing was destroyed"
            )
        }
    }

    /// Other stores of the volume that still exist would be lost with its device key.
    private static func refuseOtherStores(_ target: Target) throws(CommandFailure) {
        guard let volume = target.volume else { return }
        let own = try StateFileLayout.Store(target.directory, target.path)
        for store in StateFiles.stores(of: volume) where !store.isSameDirectory(as: own) {
            let path = HostPath(bytes: store.path)
            guard let found = try? StateFileLayout.Store(HostDirectory.open(path: FoundVolume.text(path)), path),
                !found.isSameDirectory(as: own), volumeID(at: path) == volume,
                let key = key(of: path, among: target.deviceKeys)
            else { continue }
            throw .init(
                .busy,
                "\(target.path): \(path) is a copy of this volume and needs the same device key; use --device-key \(key.word) to destroy the key, or --device-key none to keep it. Nothing was destroyed"
            )
        }
    }

    /// The UUID of the volume in a directory, of any version.
    private static func volumeID(at path: HostPath) -> VolumeID? {
        guard let text = try? FoundVolume.text(path), let directory = try? HostDirectory.open(path: text) else {
            return nil
        }
        return KeybagFile.remains(in: directory).first?.volumeID
    }

    /// The key among `keys` that another store is opened with. If its keybag cannot be read, any of them may be that key.
    private static func key(of path: HostPath, among keys: [HostPath]) -> HostPath? {
        guard let other = try? FoundVolume(path) else { return keys.first }
        guard let key = try? other.deviceKey(.usual).path else { return nil }
        return keys.contains(key) ? key : nil
    }

    private static func confirm(_ target: Target) throws(CommandFailure) {
        let name = ((try? target.path.resolved()) ?? target.path).lastComponent
        var question = ["This destroys the keys of \(target.path): nobody can read anything in it again."]
        for key in target.deviceKeys {
            question.append("It also destroys the device key \(key), which copies of the volume need too.")
        }
        for (path, reason) in target.spared + target.keptStates { question.append("It keeps \(path): \(reason).") }
        question.append("To continue, type the name of the volume's directory, \(name): ")
        let answer: [UInt8]
        do throws(SystemError) {
            answer = try Terminal.ask(question.map(Output.oneLine).joined(separator: "\n"))
        } catch {
            throw .init(
                .usage, "erase asks for confirmation, and there is no terminal; in scripts use --yes")
        }
        guard answer == name.bytes else { throw .init(.usage, "the name differs; nothing was destroyed") }
    }

    private static func record(_ target: Target, _ result: ExitCode) {
        guard let volume = target.volume else { return }
        Record.write(.keysChanged, volume, [.ownUser, .reason(.erase), .result(result)])
    }

    // MARK: doing it

    /// The device keys first, the keybag last: while the keybag can be read, the rest can be found.
    private static func destroy(_ target: Target, _ report: inout Report) throws(CommandFailure) {
        for path in target.deviceKeys { try destroy(path, &report) }
        for path in target.links { remove(path) }
        // They contain no key. Another volume's are kept, because they prevent the use of its old keybags.
        for path in target.states { try destroy(path, &report, holdsKeys: false) }
        for name in KeybagFile.allNames {
            let path = target.path.appending(bytes: Array(name.bytes))
            do throws(Errno) {
                let bytes = try? KeybagFile.read(name, in: target.directory)
                let outcome = try KeybagFile.destroy(name, in: target.directory)
                report.note(path, outcome, holdsKeys: bytes.flatMap { KeybagRemains($0) } != nil)
            } catch {
                throw failure(error, path)
            }
        }
        if let volume = target.volume { report.note(left: removeLocks(of: volume)) }
    }

    /// Removes lock files and records of checks, if nothing else with the UUID is left. Lists of changed files go with their
    /// state file.
    ///
    /// - Returns: everything that is left with the UUID in its name, except locks that are still needed.
    private static func removeLocks(of volume: VolumeID) -> [HostPath] {
        for list in LocalFile.all(of: volume) where list.isUselessList { remove(list.path) }
        let left = LocalFile.all(of: volume).filter { !$0.isIncidental }.map(\.path)
        guard left.isEmpty else { return left }
        for lock in LocalFile.all(of: volume) where lock.isIncidental { remove(lock.path) }
        return LocalFile.all(of: volume).map(\.path)
    }

    private static func failure(_ error: Errno, _ path: HostPath) -> CommandFailure {
        .init(.failure, "\(path): \(SystemError.reason(of: error.rawValue))")
    }

    private static func destroy(
        _ path: HostPath, _ report: inout Report, holdsKeys: Bool = true
    ) throws(CommandFailure) {
        guard let name = EntryName(path.lastComponent.bytes) else {
            throw .init(.usage, "\(path): not the path of a file")
        }
        let parent = try FoundVolume.text(path.parent)
        do throws(Errno) {
            report.note(
                path, try KeyFileEraser.destroy(name, in: HostDirectory.open(path: parent)), holdsKeys: holdsKeys)
        } catch { throw failure(error, path) }
    }

    private static func remove(_ path: HostPath) { _ = unsafe path.withCString { unsafe unlink($0) } }

    /// Looks for the files again by their names.
    private static func verify(_ target: Target, _ report: Report) throws(CommandFailure) {
        let keybags = KeybagFile.allNames.map { target.path.appending(bytes: Array($0.bytes)) }
        for path in keybags + target.deviceKeys + target.states + target.links {
            for path in [path, LocalFile.beingErased(path)] where isThere(path) {
                throw .init(.failure, "\(path): the file is back; stop what restores it, perhaps a sync client")
            }
        }
    }

    /// Whether anything has this name, including a dangling link.
    static func isThere(_ path: HostPath) -> Bool { (try? FileStatus.read(path)) != nil }
}
