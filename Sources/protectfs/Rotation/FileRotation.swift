// The work of `protectfs keys rotate` after the keybag has new keys: file after file, and waiting while the volume is locked.

import BackingStore
import CLibrary
import CommandSupport
import Control
import HostSystem
import KeyFiles
import Keybag
import ProtectedVolume
import SodiumKit
import VolumeAccess
import VolumeCheck
import VolumeFormat

/// The files of a volume that get new keys.
final class FileRotation {
    /// What the end of the rotation needs. It is wiped when the volume is locked.
    private struct Secrets: ~Copyable {
        let passphrase: SecretBytes
        let code: SecretBytes?
        let others: AskedSlots
    }
    private enum Outcome {
        case renewed(UInt64)
        /// Nothing was to be done, or the file has gone.
        case none
        case busy
        case failed
    }
    /// The rounds without progress, for files that programs have open, before the command ends.
    private static let patience = 5

    private let volume: any RotatingVolume
    /// Keeps other commands from changing the keybag. Nil while a daemon has the volume.
    private let lock: KeybagLock?
    private let arguments: Arguments
    private let access: CheckedVolume
    private let policy: Policy
    private let choice: FoundVolume.DeviceKeyChoice
    private let metadata: MetadataKeys
    private let former: Set<FormerKey>
    private let effect: String
    private let isNew: Bool
    private let retires: Bool
    private let secrets: Lock<Secrets?>
    private let rate: UInt64?
    private let interrupted: Interruption
    private let progress = Progress()

    private var files: UInt64 = 0
    private var bytes: UInt64 = 0
    /// Files that could not be written anew, each reported once.
    private var failed: Set<[UInt8]> = []
    private var hasToldLock = false

    private var path: HostPath { access.path }

    /// Has a daemon take the new keys in. Then nothing of the class keys stays in this process, and other commands may change the
    /// keybag from now on until the end.
    init(
        _ volume: any RotatingVolume, _ arguments: Arguments, _ prepared: consuming KeysRotate.Prepared,
        _ rate: UInt64?, _ interrupted: Interruption
    ) throws(CommandFailure) {
        do throws(CommandFailure) { try volume.takeIn(prepared.passphrase) } catch {
            throw .init(
                error.code,
                "\(error.message); the new keybag is in place, and a recovery code that was shown is valid, but no file was written anew yet. Run protectfs keys rotate again to go on"
            )
        }
        self.volume = volume
        lock = volume.isMounted ? nil : prepared.lock
        self.arguments = arguments
        self.rate = rate
        self.interrupted = interrupted
        access = prepared.access
        policy = prepared.policy
        choice = prepared.choice
        effect = prepared.effect
        isNew = prepared.isNew
        retires = prepared.retires
        former = prepared.keys.formerKeys
        do throws(SodiumError) { metadata = try prepared.keys.metadataKeys() } catch {
            throw ErrorMessages.memory(error)
        }
        secrets = Lock(Secrets(passphrase: prepared.passphrase, code: prepared.code, others: prepared.others))
        let secrets = secrets
        volume.beforeLock { secrets.withLock { $0 = nil } }
    }

    /// Writes the files anew, and takes the keys out of the keybag that nothing needs.
    func run() throws(CommandFailure) -> ExitCode {
        let needed: NeededKeys
        do throws(CommandFailure) {
            defer { progress.end() }
            needed = try writeAll()
        } catch {
            try? volume.end()
            throw error
        }
        try volume.end()
        if retires || !isNew {
            let code = try drop(needed)
            guard code == .success else { return code }
        }
        return try KeysRotate.finished(path, needed, former, files, effect, retires: retires)
    }

    // MARK: writing

    /// Writes files anew until a look through the store finds none that could be.
    ///
    /// - Returns: what that look has found. It has missed nothing (`KeyRing.quietMoves`).
    private func writeAll() throws(CommandFailure) -> NeededKeys {
        var attempts: UInt32 = 0
        while true {
            let before = try volume.formerKeys()
            let (found, renewed, busy) = try look()
            let after = try volume.formerKeys()
            var needed = found
            needed.keys.formUnion(before.keys.union(after.keys))
            needed.hasLateRecords = before.hasLateRecords || after.hasLateRecords
            if renewed { attempts = 0 }
            let isQuiet = before.moves != nil && before.moves == after.moves
            let isOpen = busy || needed.hasLateRecords || !before.keys.union(after.keys).isEmpty
            if !renewed, isQuiet, !isOpen { return try synced(needed) }
            if !renewed, try volume.state() != .unlocked {
                // While locked, files that are left can be neither judged nor written.
                try waitForUnlock()
                attempts = 0
                continue
            }
            attempts += renewed ? 0 : 1
            if attempts == Self.patience {
                guard isQuiet else {
                    throw .init(
                        .busy,
                        "\(path): \(counted(files, "file was", "files were")) written under new keys, but directories were moved whenever the store was looked through; the former keys are still in the keybag. Run protectfs keys rotate again"
                    )
                }
                return try synced(needed)
            }
            if attempts > 0 { try pause(1 << (attempts - 1)) }
        }
    }

    /// After a power cut no file may come back that needs a former key. The look has synced directories, but on some file systems
    /// that does not cover a rename of just before. Where syncfs(2) does nothing, the daemon has synced what it changed.
    private func synced(_ needed: NeededKeys) throws(CommandFailure) -> NeededKeys {
        do throws(Errno) { try access.directory.synchronizeStore() } catch {
            throw .init(
                .failure,
                "\(path): \(counted(files, "file was", "files were")) written under new keys, but the file system could not be synced (\(error)); the former keys are still in the keybag. Run protectfs keys rotate again"
            )
        }
        return needed
    }

    /// Looks through the store once, and writes the files anew that need it.
    private func look() throws(CommandFailure) -> (NeededKeys, renewed: Bool, busy: Bool) {
        var renewed = false
        var busy = false
        var failure: CommandFailure?
        let needed: NeededKeys
        do throws(VolumeError) {
            needed = try NeededKeys.find(in: access.directory, metadata, isMounted: volume.isMounted) { file, key in
                guard former.contains(key), failure == nil, !failed.contains(file) else { return }
                do throws(CommandFailure) {
                    switch try renew(file) {
                    case .renewed(let count):
                        renewed = true
                        if !Self.isCopy(file) { files += 1 }
                        bytes &+= count
                    // Nothing to be done: it is another file by now, or elsewhere. Another look tells.
                    case .none, .busy: busy = true
                    case .failed: failed.insert(file)
                    }
                } catch { failure = error }
            } goesOn: {
                failure == nil && !interrupted.isAsked
            }
        } catch .store(.EINTR) {
            throw failure ?? KeysRotate.interrupted(path, files)
        } catch {
            throw failure ?? ErrorMessages.volume(error, path)
        }
        if let failure { throw failure }
        return (needed, renewed, busy)
    }

    /// Whether a path of the store is that of a copy that was left, and not of a file.
    private static func isCopy(_ path: [UInt8]) -> Bool {
        guard let name = HostPath(bytes: path).components.last else { return false }
        return ReservedName.kind(of: Array(name).span) == .temporary
    }

    /// Has one file written anew. Waits while the volume is locked.
    private func renew(_ file: [UInt8]) throws(CommandFailure) -> Outcome {
        while true {
            do throws(CommandFailure) {
                let report = try volume.renew(file, rate) { done in
                    progress.show("\(counted(files, "file")), \((bytes &+ done) >> 20) MiB")
                    return !interrupted.isAsked
                }
                return report.isRenewed ? .renewed(report.bytes) : .none
            } catch {
                if interrupted.isAsked { throw KeysRotate.interrupted(path, files) }
                switch error.code {
                case .busy: return .busy
                case .locked: try waitForUnlock()
                case .notMounted:
                    throw .init(
                        .notMounted,
                        "\(path): the mount has ended after \(counted(files, "file")); the volume can be used, and protectfs keys rotate goes on with the rest"
                    )
                default:
                    Output.error(error.message)
                    return .failed
                }
            }
        }
    }

    private func waitForUnlock() throws(CommandFailure) {
        if !hasToldLock { Output.note("The volume is locked. The rotation goes on when it is unlocked.") }
        hasToldLock = true
        while try volume.state() != .unlocked { try pause(1) }
    }

    private func pause(_ seconds: UInt32) throws(CommandFailure) {
        for _ in 0..<(seconds * 10) {
            if interrupted.isAsked { throw KeysRotate.interrupted(path, files) }
            usleep(100_000)
        }
    }

    // MARK: the end

    /// Takes the keys out of the keybag that nothing needs. If the volume was locked meanwhile, or the passphrase changed,
    /// it is asked for again.
    private func drop(_ needed: NeededKeys) throws(CommandFailure) -> ExitCode {
        if let secrets = secrets.withLock({ $0.take() }) {
            do throws(CommandFailure) {
                return try drop(needed, secrets.passphrase, secrets.others, code: secrets.code)
            } catch {
                // It may have been changed meanwhile.
                guard error.code == .authentication else { throw error }
            }
        }
        return try CredentialInput.retrying(arguments) { () throws(CommandFailure) in
            let passphrase = try CredentialInput.passphrase(arguments, prompt: "Passphrase of \(path), once more: ")
            return try drop(needed, passphrase, nil, code: nil)
        }
    }

    private func drop(
        _ needed: NeededKeys, _ passphrase: borrowing SecretBytes, _ given: AskedSlots?, code: borrowing SecretBytes?
    ) throws(CommandFailure) -> ExitCode {
        let lock: KeybagLock
        if let held = self.lock { lock = held } else { lock = try KeybagLock(access.bag.volumeID) }
        defer { withExtendedLifetime(lock) {} }
        let now = try access.readAgain(isAlone: true)
        let deviceKey = try now.found.deviceKey(choice)
        let copy: SecretBytes
        do throws(SodiumError) { copy = try passphrase.copy() } catch { throw ErrorMessages.memory(error) }
        let keys = try now.unlock(.passphrase(copy), deviceKey)
        // A passphrase or recovery code that was made meanwhile must not give way to the one before it.
        let isUnchanged = now.bag.bytes == access.bag.bytes
        let others: AskedSlots
        if let given, isUnchanged { others = given } else { others = try AskedSlots(arguments, now, deviceKey, keys) }
        try others.requireAll(arguments, now, keys, "The former keys are still in the keybag")
        let shown: SecretBytes?
        do throws(SodiumError) {
            shown = try KeysRotate.copy(of: code, if: isUnchanged)
        } catch {
            throw ErrorMessages.memory(error)
        }
        // Not those of a rotation that has begun meanwhile.
        let unneeded = retires ? needed.unneeded(of: former.intersection(keys.formerKeys)) : []
        let end = try KeysRotate.drop(unneeded, now, policy, choice, keys, passphrase, others, code: shown)
        guard end == .success else { return end }
        do throws(CommandFailure) { try volume.takeIn(passphrase) } catch {
            // The next unlock takes the keys in that are left.
            Output.note(
                "The former keys have left the keybag. The mount keeps them in memory until the next unlock (\(error.message))."
            )
        }
        return end
    }
}
