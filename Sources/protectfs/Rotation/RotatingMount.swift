// The mount of a volume whose class keys change, as the command reaches it.

import CommandSupport
import Control
import HostSystem
import Keybag
import SodiumKit
import VolumeFormat

/// A connection to the daemon of a mounted volume, made again if the daemon closes it because it was idle.
final class RotatingMount: RotatingVolume {
    let isMounted = true
    private let entry: MountEntry
    private let volume: HostPath
    private var client: ControlClient?
    /// The volume's keys, with which each new connection is proven. Nil until the keybag is open.
    private var keys: MetadataKeys?

    /// The mount of the volume at `path`. Nil if no daemon of a mount uses the volume: taking the volume's own claim then shows that it
    /// is not mounted.
    ///
    /// - Throws: if its class keys cannot be changed now, because it is shared, read-only, or not unlocked.
    init?(_ path: HostPath) throws(CommandFailure) {
        var mount: MountEntry?
        for candidate in MountLookup.of(volume: path) where mount == nil {
            let client = try DaemonConnection.connect(candidate, candidate.mountPoint)
            if StoreProof.doubt(client, candidate, of: path) == nil { mount = candidate }
        }
        guard let mount else { return nil }
        (entry, volume) = (mount, path)
        _ = try formerKeys()
        guard try state() == .unlocked else {
            throw .init(
                .locked,
                "\(path): the volume is mounted and not unlocked; unlock it (protectfs unlock \(entry.mountPoint.word)), or unmount it"
            )
        }
    }

    /// From now on each connection must prove that the daemon has the volume's keys.
    func trust(onlyWith keys: MetadataKeys) throws(CommandFailure) {
        self.keys = keys
        client = nil
        _ = try state()
    }

    /// A new connection, to the volume's own daemon.
    private static func connect(
        _ entry: MountEntry, _ volume: HostPath, _ keys: MetadataKeys?
    ) throws(CommandFailure) -> ControlClient {
        let client = try DaemonConnection.connect(entry, entry.mountPoint)
        try DaemonConnection.call(entry.mountPoint) { () throws(ControlError) in
            if let keys {
                try StoreProof.require(client, entry, of: volume, with: keys)
            } else {
                try StoreProof.require(client, entry, of: volume)
            }
        }
        return client
    }

    /// Runs a call on the daemon, a second time if the connection had ended.
    private func call<Result>(
        _ body: (borrowing ControlClient) throws(ControlError) -> Result
    ) throws(CommandFailure) -> Result {
        do throws(ControlError) {
            switch client {
            case .some(let client): return try body(client)
            case .none: break
            }
        } catch .closed {
            // The daemon closes connections that were idle.
        } catch {
            throw DaemonConnection.explain(error, entry.mountPoint)
        }
        client = try Self.connect(entry, volume, keys)
        return try DaemonConnection.call(entry.mountPoint) { () throws(ControlError) in
            switch client {
            case .some(let client): try body(client)
            case .none: throw ControlError.closed
            }
        }
    }

    func formerKeys() throws(CommandFailure) -> FormerKeysReport {
        try call { (client) throws(ControlError) in try client.formerKeys() }
    }

    func state() throws(CommandFailure) -> VolumeState {
        try call { (client) throws(ControlError) in try client.status().state }
    }

    func takeIn(_ passphrase: borrowing SecretBytes) throws(CommandFailure) {
        let copy: SecretBytes
        do throws(SodiumError) { copy = try passphrase.copy() } catch { throw ErrorMessages.memory(error) }
        let credential = Credential.passphrase(copy)
        guard keys != nil else { preconditionFailure("the keybag is open") }
        client = try Self.connect(entry, volume, keys)
        do throws(ControlError) {
            switch client {
            case .some(let client): _ = try client.unlock(credential, when: .ifUnlocked)
            case .none: break
            }
        } catch {
            throw DaemonConnection.explain(error, entry.mountPoint)
        }
    }

    func renew(
        _ path: [UInt8], _ rate: UInt64?, progress: (UInt64) -> Bool
    ) throws(CommandFailure) -> RenewalReport {
        var goesOn = true
        return try call { (client) throws(ControlError) in
            guard goesOn else { throw ControlError.closed }
            return try client.renewKey(RenewalRequest(path: path, rate: rate)) { step in
                goesOn = progress(step.done)
                return goesOn
            }
        }
    }

    func end() {}

    func beforeLock(_ wipe: @escaping @Sendable () -> Void) {
        let (entry, volume, keys) = (entry, volume, keys)
        let thread = BackgroundThread(name: "lock watch") {
            defer { wipe() }
            guard let client = try? Self.connect(entry, volume, keys),
                let state = try? client.subscribe(wait: true)
            else { return }
            if state != .unlocked { wipe() }
            while let event = try? client.nextEvent() {
                switch event {
                case .willLock(let id, _):
                    wipe()
                    try? client.done(id)
                case .locked, .sweeping: wipe()
                case .willUnlock, .unlocked, .firstUnlock, .inactive: break
                }
            }
        }
        if thread == nil { wipe() }
    }
}
