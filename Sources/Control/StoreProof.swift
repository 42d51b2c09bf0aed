// Whether the daemon of a mount is the one of a volume. Any user can make a mount that names any directory as its source.

import CLibrary
package import HostSystem
package import Keybag

/// Why the word of a daemon does not count for a volume.
package enum StoreDoubt: Sendable, Equatable {
    /// The mount is of a user who is neither the caller nor root nor the owner of the store.
    case foreign(owner: UInt32?)
    /// The process that answers does not hold the claim on the store.
    case noClaim
    /// It does not know the request `prove`, as older versions do not.
    case older
    /// It does not have the volume's keys.
    case wrongKeys
}

/// The one place that judges daemons. No secret is sent, and nothing is decided for a volume, before it has agreed.
///
/// A daemon is believed if the mount's owner may have mounts of the volume, if its process holds the claim on the store
/// (`Volume.claim`), and, where the volume's keys are at hand, if it answers a fresh challenge with them.
package enum StoreProof {
    /// The users whose mounts of a store count: this one, root, and the owner of its directory.
    package static func owners(of store: HostPath) -> Set<UInt32> {
        var owners: Set<UInt32> = [geteuid(), 0]
        if let store = try? store.resolved(), let owner = try? FileStatus.read(store).st_uid { owners.insert(owner) }
        return owners
    }

    /// Whether a mount counts wherever it says it belongs, because it is of this user or of root.
    package static func isCertain(_ mount: MountEntry) -> Bool { mount.owner == geteuid() || mount.owner == 0 }

    /// The mounts among `mounts` whose owners may have mounts of `store`.
    package static func trusted(_ mounts: [MountEntry], of store: HostPath) -> [MountEntry] {
        let owners = owners(of: store)
        return mounts.filter { $0.owner.map(owners.contains) ?? false }
    }

    /// The mounts among `mounts`, which name `store` as their source, that count as mounts of it, without asking a daemon: those of
    /// this user and of root, and those of the store's owner if a process of that user holds the claim.
    ///
    /// - Parameter volume: whose owner may have mounts, too. Nil takes the store itself.
    package static func counting(
        _ mounts: [MountEntry], of store: HostPath, ownedAs volume: HostPath? = nil
    ) -> [MountEntry] {
        let trusted = trusted(mounts, of: volume ?? store)
        guard !trusted.allSatisfy(isCertain) else { return trusted }
        let users = LockTable.holders(of: store).compactMap(\.user)
        return trusted.filter { mount in isCertain(mount) || mount.owner.map(users.contains) ?? false }
    }

    /// The processes that hold a lock of a store, if all of them are of users whose mounts of it do not count. Empty if one of them may
    /// be a mount, or none can be seen.
    package static func strangers(holding store: HostPath) -> [LockTable.Holder] {
        let owners = owners(of: store)
        // Root sees who really has it: a lock outlives the process that took it, if a child has it, and its number is used again.
        let holders = Credentials.isRoot ? LockTable.keepers(of: store) : LockTable.holders(of: store)
        let isForeign = holders.allSatisfy { holder in holder.user.map { !owners.contains($0) } ?? false }
        return isForeign ? holders : []
    }

    /// What speaks against the daemon of a mount, without the volume's keys. Nil if nothing does.
    package static func doubt(
        _ client: borrowing ControlClient, _ mount: MountEntry, of store: HostPath
    ) -> StoreDoubt? {
        let holders = LockTable.holders(of: store)
        return judge(
            owner: mount.owner, owners: owners(of: store), caller: geteuid(), peer: client.peer, holders: holders,
            isHeld: holders.isEmpty ? LockTable.isHeld(store) : true)
    }

    /// As `doubt`, from what is known.
    ///
    /// - Parameters:
    ///   - peer: who listens on the socket.
    ///   - isHeld: whether any process holds the claim, visible or not; nil if that is unknown.
    static func judge(
        owner: UInt32?, owners: Set<UInt32>, caller: UInt32, peer: LockTable.Holder?, holders: [LockTable.Holder],
        isHeld: Bool?
    ) -> StoreDoubt? {
        guard let owner, owners.contains(owner) else { return .foreign(owner: owner) }
        guard let peer, peer.user == owner else { return .noClaim }
        if holders.contains(peer) { return nil }
        // A daemon in another PID namespace cannot be seen. A program of this user that answers in its place could read what this
        // process does in other ways too.
        return owner == caller && holders.isEmpty && isHeld != false ? nil : .noClaim
    }

    /// Refuses a daemon that something speaks against, before a secret is sent to it.
    package static func require(
        _ client: borrowing ControlClient, _ mount: MountEntry, of store: HostPath
    ) throws(ControlError) {
        if let doubt = doubt(client, mount, of: store) { throw .unproven(doubt) }
    }

    /// Refuses a daemon that does not answer a fresh challenge with the keys of the volume, too.
    package static func require(
        _ client: borrowing ControlClient, _ mount: MountEntry, of store: HostPath, with keys: MetadataKeys
    ) throws(ControlError) {
        try require(client, mount, of: store)
        let challenge = MountChallenge()
        let answer: [UInt8]
        do throws(ControlError) { answer = try client.prove(challenge) } catch {
            if case .refused(let failure) = error, failure.code == "unknownRequest" { throw .unproven(.older) }
            throw error
        }
        guard challenge.isAnswered(by: answer, keys, major: mount.major, minor: mount.minor) else {
            throw .unproven(.wrongKeys)
        }
    }
}
