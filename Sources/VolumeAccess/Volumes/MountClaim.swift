// A claim on a state file, so that no two programs write two stores, or one store, by the same record of this machine.

import CLibrary
import KeyFiles
package import CommandSupport
package import HostSystem
import Keybag
import VolumeFormat

/// The lock file beside a state file, which a writable mount or check holds from its first change of the state file to the end of
/// its process.
///
/// The volume's directory is claimed too (`Volume.claim`), but a copy of a whole file system has another directory, which this
/// machine takes for the same one. Two mounts by one state file would take each other's open epochs and late files for their own.
package enum MountClaim {
    /// Claims the state file of a store until the process ends.
    ///
    /// - Parameters:
    ///   - isShared: for `-o shared`, whose mounts may be several on one machine.
    ///   - mountPoint: nil for a check.
    ///   - options: the words of `-o` with which the agent may mount it there again; nil if something else does.
    /// - Throws: busy if another mount or check has it; otherwise the failure of the state file.
    package static func take(
        _ access: FoundVolume, isShared: Bool = false, mountPoint: HostPath? = nil, options: String? = nil
    ) throws(CommandFailure) {
        let (volume, place) = (access.bag.volumeID, try access.place())
        let path = LocalFile.mountLock(of: volume, number: place.number)
        let file: Descriptor
        do throws(SystemError) {
            try makeDirectories(SystemPaths.data)
            // Not for writing: its file system may become read-only while the mount lives.
            file = try open(path, O_RDONLY | O_CREAT)
        } catch {
            throw ErrorMessages.stateFile(
                .init(name: StateFileStore.fileName(volume, place.number), .unwritable(error.cause)))
        }
        guard lock(file, isShared: isShared) else { throw busy(access, place, holder: owner(file)) }
        // For the messages of other programs, for those that wait, and for the next start of the machine. It may not fit, which only
        // makes a message shorter. A check, or a mount in a private place, is nothing to come back to.
        var record = MountRecord(read: file)
        record.store = HostPath(bytes: place.store.path)
        if let mountPoint = mountPoint.flatMap({ try? $0.resolved() }),
            !SystemPaths.runtimes.contains(where: mountPoint.isInside)
        {
            // Of several mounts that share a store, the last one has written the record, and it says nothing of the others.
            record.mountPoint = isShared ? nil : mountPoint
            record.options = isShared ? nil : options
        }
        record.write(to: path)
        // The claim ends with the process, after it has closed its epoch.
        _ = file.release()
    }

    /// Forgets that a store was mounted here, because somebody has unmounted it on purpose. The process has the claim.
    package static func forget(_ mountPoint: HostPath, of access: FoundVolume) {
        guard let place = try? access.place() else { return }
        let path = LocalFile.mountLock(of: access.bag.volumeID, number: place.number)
        guard let file = try? open(path, O_RDONLY) else { return }
        var record = MountRecord(read: file)
        guard record.mountPoint == mountPoint else { return }
        (record.mountPoint, record.options) = (nil, nil)
        record.write(to: path)
    }

    /// The records of stores that no mount or check has now.
    static func leftRecords() -> [MountRecord] {
        lockFiles().compactMap { path in
            guard let file = try? open(path, O_RDONLY), lock(file) else { return nil }
            return MountRecord(read: file)
        }
    }

    /// The path of another store of this volume that is mounted or being repaired right now. Nil if there is none.
    package static func otherInUse(_ access: FoundVolume) throws(CommandFailure) -> HostPath? {
        let (volume, own) = (access.bag.volumeID, try access.place().number)
        for number in LocalFile.stateNumbers(of: volume) where number != own {
            let path = LocalFile.mountLock(of: volume, number: number)
            guard let file = try? open(path, O_RDONLY), !lock(file) else { continue }
            return owner(file) ?? HostPath("another copy")
        }
        return nil
    }

    /// The claim of a daemon that has a mount at one of these paths, or had one and has not ended. Nil if there is none.
    static func ofMount(at candidates: [HostPath]) -> HostPath? {
        lockFiles().first { path in
            guard let file = try? open(path, O_RDONLY), let mountPoint = MountRecord(read: file).mountPoint else {
                return false
            }
            return candidates.contains(mountPoint) && !lock(file)
        }
    }

    private static func lockFiles() -> [HostPath] {
        let nameEnd = Array(".mount.lock".utf8)
        let names = (try? FileStatus.names(in: SystemPaths.data)) ?? []
        return names.filter { $0.bytes.suffix(nameEnd.count).elementsEqual(nameEnd) }
            .map { SystemPaths.data.appending(bytes: $0.bytes) }
    }

    private static func open(_ path: HostPath, _ flags: Int32) throws(SystemError) -> Descriptor {
        try Descriptor(opening: path, flags | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode: 0o600)
    }

    /// False if another process has the lock.
    private static func lock(_ file: borrowing Descriptor, isShared: Bool = false) -> Bool {
        while flock(file.number, (isShared ? LOCK_SH : LOCK_EX) | LOCK_NB) != 0 {
            // A file system without such locks must not make mounting impossible.
            if errno != EINTR { return errno != EWOULDBLOCK }
        }
        return true
    }

    /// The path that the holder has written.
    private static func owner(_ file: borrowing Descriptor) -> HostPath? { MountRecord(read: file).store }

    private static func busy(_ access: FoundVolume, _ place: StoreIdentity, holder: HostPath?) -> CommandFailure {
        guard let holder, holder.description != HostPath(bytes: place.store.path).description else {
            return EndingMount.inUse(access.path)
        }
        return .init(
            .busy,
            "\(access.path): this machine takes it for the store at \(holder), which is mounted or being checked right now: it is the same one, or a copy that cannot be told from it, such as a snapshot of its whole file system; unmount the other one first, or mount this one with -o ro"
        )
    }
}
