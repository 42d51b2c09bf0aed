// A lock that lets one command at a time change the keybag of a volume.

import CLibrary
package import CommandSupport
import HostSystem
import KeyFiles
package import VolumeFormat

/// Keeps two commands from changing one keybag at the same time on this machine.
package final class KeybagLock {
    private let file: Descriptor

    /// Waits for the lock.
    package init(_ volume: VolumeID) throws(CommandFailure) {
        let file = try Self.open(Self.path(volume))
        if flock(file.number, LOCK_EX | LOCK_NB) != 0 {
            Output.note(
                "Another command is changing the keybag of this volume (\(Self.path(volume))); waiting for its end.")
            try Self.wait(file)
        }
        self.file = file
    }

    /// Takes the lock. Nil if a command has it, or it is not available.
    init?(ifFree volume: VolumeID) {
        guard let file = try? Self.open(Self.path(volume)), flock(file.number, LOCK_EX | LOCK_NB) == 0 else {
            return nil
        }
        self.file = file
    }

    /// The lock, if no command has it. A lock that cannot be made has nobody.
    static func writer<Value>(of volume: VolumeID) -> SettledReading<Value>.Writer {
        if let lock = KeybagLock(ifFree: volume) { return .none(lock) }
        return isTaken(volume) ? .other : .none(nil)
    }

    /// Whether a command has the lock.
    static func isTaken(_ volume: VolumeID) -> Bool {
        guard let file = try? open(path(volume)) else { return false }
        while flock(file.number, LOCK_SH | LOCK_NB) != 0 {
            if errno != EINTR { return errno == EWOULDBLOCK }
        }
        return false
    }

    private static func path(_ volume: VolumeID) -> HostPath { LocalFile.keybagLock(of: volume) }

    private static func wait(_ file: borrowing Descriptor) throws(CommandFailure) {
        while flock(file.number, LOCK_EX) != 0 {
            if errno != EINTR { throw ErrorMessages.system(.last("flock")) }
        }
    }

    private static func open(_ path: HostPath) throws(CommandFailure) -> Descriptor {
        do throws(SystemError) {
            try makeDirectories(SystemPaths.data)
            let file = try Descriptor(opening: path, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, mode: 0o600)
            guard try file.status().st_mode & S_IFMT == S_IFREG else {
                throw SystemError(code: EINVAL, call: "open", subject: path.description)
            }
            return file
        } catch {
            throw LocalState.noDirectory(error.subject.isEmpty ? "\(path)" : error.subject, error.code)
        }
    }
}
