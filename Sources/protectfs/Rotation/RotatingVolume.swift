// The volume of `protectfs keys rotate`: one that a daemon has, or one that the command has open itself.

import CommandSupport
import Control
import FileContents
import HostSystem
import KeyFiles
import Keybag
import MountDaemon
import ProtectedVolume
import SodiumKit
import VolumeAccess
import VolumeFormat

/// The volume whose class keys change, as the command reaches it.
protocol RotatingVolume: AnyObject {
    /// Whether a daemon has the volume, so that programs may change it meanwhile.
    var isMounted: Bool { get }
    /// Has it use the keys of the keybag as it is now. The volume must be unlocked.
    func takeIn(_ passphrase: borrowing SecretBytes) throws(CommandFailure)
    /// What needs former keys beyond the store, after everything that was changed has been made durable.
    func formerKeys() throws(CommandFailure) -> FormerKeysReport
    /// The state of the volume.
    func state() throws(CommandFailure) -> VolumeState
    /// Gives the file at a path of the store a new key if it needs one.
    ///
    /// - Parameter progress: gets the bytes done, and says whether to go on.
    func renew(
        _ path: [UInt8], _ rate: UInt64?, progress: (UInt64) -> Bool
    ) throws(CommandFailure) -> RenewalReport
    /// Calls `wipe` before the volume is locked, and when the mount ends, from another thread. Calls it at once if that cannot be
    /// known.
    func beforeLock(_ wipe: @escaping @Sendable () -> Void)
    /// Ends the work on files.
    func end() throws(CommandFailure)
}

/// A volume that is not mounted. The command has claimed it, and opens it itself: a private mount would outlive a command that is
/// killed, with its keys, and be locked with the session.
final class OpenedVolume: RotatingVolume {
    let isMounted = false
    private let volume: Volume
    private let path: HostPath

    init(_ prepared: borrowing KeysRotate.Prepared) throws(CommandFailure) {
        let access = prepared.access
        path = access.path
        let keys: KeyRing
        do throws(SodiumError) { keys = try KeyRing(access.bag, keys: prepared.keys.copy()) } catch {
            throw ErrorMessages.memory(error)
        }
        let states = try LocalState.store(access.found)
        do throws(VolumeError) {
            volume = try Volume(directory: access.directory, keys: keys, state: states, options: VolumeOptions()) {
                Output.error(Daemon.describe($0, withNames: true))
            }
        } catch { throw ErrorMessages.volume(error, path) }
    }

    /// Its keys are those of the keybag already.
    func takeIn(_ passphrase: borrowing SecretBytes) {}

    /// Nothing is open, and only this command moves files, so a look through the store shows everything.
    func formerKeys() throws(CommandFailure) -> FormerKeysReport {
        do throws(VolumeError) { try volume.synchronizeChanges() } catch { throw ErrorMessages.volume(error, path) }
        return FormerKeysReport(moves: 0, keys: [], hasLateRecords: false)
    }

    func state() -> VolumeState { .unlocked }

    func renew(
        _ stored: [UInt8], _ rate: UInt64?, progress: (UInt64) -> Bool
    ) throws(CommandFailure) -> RenewalReport {
        try FileRenewal.run(
            RenewalRequest(path: stored, rate: rate), in: volume, nil,
            shown: { HostPath(bytes: $0.isEmpty ? stored : Array($0.joined(separator: "/".utf8))) },
            progress: { progress($0.done) })
    }

    func beforeLock(_ wipe: @escaping @Sendable () -> Void) {}

    func end() throws(CommandFailure) {
        do throws(VolumeError) { try volume.close() } catch { throw ErrorMessages.volume(error, path) }
    }
}
