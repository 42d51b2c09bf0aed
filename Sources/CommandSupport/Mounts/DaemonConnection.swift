// Connections to the daemon of a mount, and messages for their failures.

import CLibrary
package import Control
package import HostSystem
import Keybag

/// Connections to the daemons of mounts.
package enum DaemonConnection {
    /// Connects to the daemon of a mount.
    package static func connect(_ entry: MountEntry, _ path: HostPath) throws(CommandFailure) -> ControlClient {
        let reason: String
        do throws(ControlError) {
            return try ControlClient(to: entry)
        } catch .unreachable(let error) {
            if error.code == EACCES || error.code == EPERM {
                throw .init(.failure, "\(path): this mount belongs to another user")
            }
            reason = error.reason
        } catch {
            throw explain(error, path)
        }
        if let owner = entry.owner, owner != geteuid() {
            guard Credentials.isRoot else {
                throw .init(.failure, "\(path): this mount belongs to another user (\(AccountNames.user(owner)))")
            }
            // Not looked at: a file system of another user may never answer, and a process that waits for it cannot even end.
            throw .init(
                .notMounted,
                "\(path): cannot connect to the daemon of the mount, which belongs to \(AccountNames.user(owner)): \(reason); if it has died, remove the mount with protectfs unmount \(path.word)"
            )
        }
        if MountLookup.isDead(entry) {
            throw .init(
                .notMounted,
                "\(path): the daemon of the mount has died; remove the mount with protectfs unmount \(path.word)")
        }
        throw .init(.notMounted, "\(path): cannot connect to the daemon of the mount: \(reason)")
    }

    /// Connects to a daemon that uses the volume which its mount names. Only such a daemon gets secrets, or decides anything.
    package static func connectProven(_ entry: MountEntry, _ path: HostPath) throws(CommandFailure) -> ControlClient {
        let client = try connect(entry, path)
        do throws(ControlError) { try StoreProof.require(client, entry, of: entry.source) } catch {
            throw explain(error, path)
        }
        return client
    }

    /// Connects and runs a call, once more if the connection has ended without an answer: a daemon that has no room for others ends
    /// one that has asked nothing for a second.
    package static func ask<Result>(
        _ entry: MountEntry, _ path: HostPath, _ body: (borrowing ControlClient) throws(ControlError) -> Result
    ) throws(CommandFailure) -> Result {
        let first = try connect(entry, path)
        do throws(ControlError) { return try body(first) } catch {
            guard error == .closed, MountLookup.all().contains(entry) else { throw explain(error, path) }
        }
        let second = try connect(entry, path)
        return try call(path) { () throws(ControlError) in try body(second) }
    }

    /// Runs a call on the daemon and explains its failure.
    package static func call<Result: ~Copyable>(
        _ path: HostPath, _ body: () throws(ControlError) -> Result
    ) throws(CommandFailure) -> Result {
        do throws(ControlError) { return try body() } catch { throw explain(error, path) }
    }

    /// The sentence for a failed call.
    package static func explain(_ error: ControlError, _ path: HostPath) -> CommandFailure {
        switch error {
        case .refused(let failure):
            let code = ExitCode(word: failure.code) ?? .failure
            return .init(
                code, failure.message.isEmpty ? "\(path): refused by the daemon (\(failure.code))" : failure.message)
        case .unreachable(let error):
            return .init(.notMounted, "\(path): cannot connect to the daemon of the mount: \(error.reason)")
        case .timedOut: return .init(.failure, "\(path): the daemon of the mount did not answer in time")
        case .closed: return .init(.notMounted, "\(path): the daemon of the mount has ended")
        case .protocolViolation:
            return .init(
                .failure, "\(path): the daemon of the mount runs another version of protectfs; unmount and mount again")
        case .system(let error): return ErrorMessages.system(error)
        case .unusableSecret:
            return .init(.authentication, "a passphrase must have 1 to \(Credential.maximumLength) bytes")
        case .unproven(let doubt): return explain(doubt, path)
        }
    }

    private static func explain(_ doubt: StoreDoubt, _ path: HostPath) -> CommandFailure {
        switch doubt {
        case .foreign(let owner):
            .init(
                .notMounted,
                "\(path): this mount belongs to another user (\(owner.map { "\($0)" } ?? "unknown")), who does not own the volume that it names; nothing was sent to it"
            )
        case .noClaim:
            .init(
                .notMounted,
                "\(path): the daemon of the mount does not use the volume that the mount names; nothing was sent to it. If it is a mount of yours, unmount it and mount the volume again"
            )
        case .older:
            .init(
                .failure,
                "\(path): the daemon of the mount is an older version of protectfs, which cannot prove that it has the volume's keys; unmount and mount again"
            )
        case .wrongKeys:
            .init(
                .notMounted,
                "\(path): the daemon of the mount does not have the keys of the volume that the mount names; nothing was sent to it. If it is a mount of yours, unmount it and mount the volume again"
            )
        }
    }

    /// Removes the socket of a dead daemon.
    package static func cleanAfterDead(_ entry: MountEntry) {
        // Only if the daemon made it, because anyone can make the directory in /tmp.
        let owners = Set([geteuid(), entry.owner ?? geteuid()])
        for socket in SystemPaths.controlSockets(of: entry) where SystemPaths.isSafe(socket.parent, owners: owners) {
            _ = unsafe socket.withCString { unsafe unlink($0) }
        }
    }
}
