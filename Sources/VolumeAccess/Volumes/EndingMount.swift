// Waits for others that let go of the volume soon: a daemon that has lost its mount, and a command that changes the keys.

import CLibrary
package import CommandSupport
package import HostSystem
package import VolumeFormat

/// After umount(8) the daemon still writes what the store has not taken, and closes its epoch. A command that comes at once waits
/// for that.
package enum EndingMount {
    /// How long a command waits, in nanoseconds.
    private static let patience: UInt64 = 5_000_000_000
    /// How long a mount waits for a command that changes the keys, in nanoseconds. A small volume has new keys by then.
    private static let patienceForKeys: UInt64 = 60_000_000_000

    /// Runs `claim`, again and again while it fails because the volume is busy, although it is not mounted.
    ///
    /// - Parameter changing: a volume whose keys a command may be changing. That is waited for longer.
    /// - Throws: busy, with the process that has the volume, if that takes too long.
    package static func waiting<Result>(
        for volume: HostPath, changing: VolumeID? = nil, _ claim: () throws(CommandFailure) -> Result
    ) throws(CommandFailure) -> Result {
        let start = monotonicNanoseconds()
        var deadline = start + patience
        while true {
            do throws(CommandFailure) {
                return try claim()
            } catch {
                let now = monotonicNanoseconds()
                if let changing, now < start + patienceForKeys, KeybagLock.isTaken(changing) {
                    deadline = now + patience
                }
                guard error.code == .busy, MountLookup.of(volume: volume).isEmpty, now < deadline else { throw error }
            }
            usleep(50_000)
        }
    }

    /// Waits for the daemon of a mount that was at `path` a moment ago. False if there is none.
    ///
    /// - Throws: busy, with the daemon's process, if that takes too long.
    package static func wait(forMountAt path: HostPath) throws(CommandFailure) -> Bool {
        let candidates = try MountLookup.candidates(path)
        guard let first = MountClaim.ofMount(at: candidates) else { return false }
        let deadline = monotonicNanoseconds() + patience
        var claim: HostPath? = first
        while let held = claim {
            guard monotonicNanoseconds() < deadline else {
                let process = LockTable.holder(of: held).map { "process \($0)" } ?? "another process"
                throw .init(
                    .busy,
                    "\(path): is unmounted, but its daemon (\(process)) has not ended: it still writes to the volume, or a program uses the mount (umount -l); run protectfs unmount again to wait for it"
                )
            }
            usleep(50_000)
            claim = MountClaim.ofMount(at: candidates)
        }
        return true
    }

    /// The volume's directory is in use, and by whom.
    package static func inUse(_ volume: HostPath) -> CommandFailure {
        if let mount = MountLookup.of(volume: volume).first {
            return .init(
                .busy,
                "\(volume): the volume is already mounted at \(mount.mountPoint); use one mount at a time, or -o ro and -o shared together"
            )
        }
        let process = LockTable.holder(of: volume).map { "process \($0)" } ?? "another process"
        return .init(
            .busy,
            "\(volume): \(process) still uses the volume: a command that works on it, or the daemon of a mount that is ending; try again when it has ended"
        )
    }
}
