// Which daemons are believed: what the users, the claim and the keys say of them.

import Glibc
import Keybag
import SodiumKit
import Testing
import VolumeFormat

@testable import Control
@testable import HostSystem

@Suite(.serialized) struct StoreProofTests {
    private let caller: UInt32 = 1
    private let owner: UInt32 = 2
    private let stranger: UInt32 = 3

    private func judge(
        owner mountOwner: UInt32?, peer: LockTable.Holder?, _ holders: [LockTable.Holder], isHeld: Bool? = true
    ) -> StoreDoubt? {
        StoreProof.judge(
            owner: mountOwner, owners: [caller, 0, owner], caller: caller, peer: peer, holders: holders, isHeld: isHeld)
    }

    @Test func usersAndClaims() {
        func holder(_ process: Int32, _ user: UInt32?) -> LockTable.Holder { .init(process: process, user: user) }
        for user in [caller, 0, owner] {
            let daemon = holder(7, user)
            #expect(judge(owner: user, peer: daemon, [daemon]) == nil)
            #expect(judge(owner: user, peer: daemon, [holder(6, 0), daemon]) == nil)
            #expect(judge(owner: user, peer: daemon, [holder(8, user)]) == .noClaim)
            // A number that is used again.
            #expect(judge(owner: user, peer: daemon, [holder(7, stranger)]) == .noClaim)
            #expect(judge(owner: user, peer: nil, [daemon]) == .noClaim)
            #expect(judge(owner: user, peer: holder(7, stranger), [holder(7, stranger)]) == .noClaim)
            #expect(judge(owner: user, peer: daemon, [], isHeld: false) == .noClaim)
        }
        let daemon = holder(7, stranger)
        #expect(judge(owner: stranger, peer: daemon, [daemon]) == .foreign(owner: stranger))
        #expect(judge(owner: nil, peer: daemon, [daemon]) == .foreign(owner: nil))
    }

    @Test func claimsThatCannotBeSeen() {
        for isHeld in [true, nil] {
            #expect(judge(owner: caller, peer: .init(process: 0, user: caller), [], isHeld: isHeld) == nil)
            #expect(judge(owner: owner, peer: .init(process: 0, user: owner), [], isHeld: isHeld) == .noClaim)
            #expect(judge(owner: 0, peer: .init(process: 0, user: 0), [], isHeld: isHeld) == .noClaim)
        }
    }

    private func keys(_ number: UInt8) throws -> MetadataKeys {
        var key = try SecretKey()
        key.withMutableBytes { bytes in for index in 0..<bytes.count { bytes[index] = number } }
        return try MetadataKeys(metadataKey: key, volumeID: VolumeID(InlineArray(repeating: 5)))
    }

    @Test func answers() throws {
        let keys = try keys(1)
        let challenge = MountChallenge()
        let answer = challenge.answer(keys, major: 0, minor: 52)
        #expect(answer.count == 32)
        #expect(challenge.isAnswered(by: answer, keys, major: 0, minor: 52))
        #expect(!challenge.isAnswered(by: answer, keys, major: 0, minor: 53))
        #expect(!challenge.isAnswered(by: answer, keys, major: 1, minor: 52))
        #expect(!challenge.isAnswered(by: answer, try self.keys(2), major: 0, minor: 52))
        #expect(!challenge.isAnswered(by: [], keys, major: 0, minor: 52))
        #expect(!challenge.isAnswered(by: Array(answer.dropLast()), keys, major: 0, minor: 52))
        #expect(!challenge.isAnswered(by: answer + [0], keys, major: 0, minor: 52))
        for index in answer.indices {
            var changed = answer
            changed[index] ^= 1
            #expect(!challenge.isAnswered(by: changed, keys, major: 0, minor: 52))
        }
        #expect(MountChallenge() != challenge)
        #expect(!MountChallenge().isAnswered(by: answer, keys, major: 0, minor: 52))
        #expect(MountChallenge(challenge.text) == challenge)
        #expect(MountChallenge(String(challenge.text.dropLast(2))) == nil)
        #expect(MountChallenge(challenge.text + "00") == nil)
        #expect(MountChallenge("") == nil)
    }

    /// A directory that this process has claimed, as a daemon does, and its mount.
    private func withClaim(
        _ body: (_ store: HostPath, _ mount: MountEntry, _ claim: borrowing Descriptor) throws -> Void
    ) throws {
        let store = HostPath("/tmp/protectfs-claim-\(getpid())")
        #expect(unsafe store.withCString { unsafe mkdir($0, 0o700) } == 0)
        defer { _ = unsafe store.withCString { unsafe rmdir($0) } }
        let directory = try Descriptor(opening: store, O_RDONLY | O_DIRECTORY)
        let mount = MountEntry(
            major: 0, minor: 52, root: HostPath("/"), mountPoint: HostPath("/m"), options: "rw", type: "fuse.protectfs",
            source: store, superOptions: "rw,user_id=\(geteuid())")
        try body(store, mount, directory)
    }

    @Test func aDaemonOnASocket() throws {
        let server = try TestServer()
        defer { server.stop() }
        let (right, wrong) = (try keys(1), try keys(2))
        try withClaim { store, mount, directory in
            let client = try ControlClient(connecting: server.socket)
            #expect(LockTable.holders(of: store).isEmpty && LockTable.isHeld(store) == false)
            #expect(throws: ControlError.unproven(.noClaim)) { try StoreProof.require(client, mount, of: store) }
            #expect(StoreProof.counting([mount], of: store) == [mount])
            #expect(flock(directory.number, LOCK_EX | LOCK_NB) == 0)
            let this = LockTable.Holder(process: getpid(), user: getuid())
            #expect(LockTable.holders(of: store) == [this] && LockTable.keepers(of: store) == [this])
            #expect(LockTable.isHeld(store) == true)
            try StoreProof.require(client, mount, of: store)
            server.handler.proof.withLock { $0 = { $0.answer(right, major: 0, minor: 52) } }
            try StoreProof.require(client, mount, of: store, with: right)
            #expect(throws: ControlError.unproven(.wrongKeys)) {
                try StoreProof.require(client, mount, of: store, with: wrong)
            }
            server.handler.proof.withLock { $0 = { $0.answer(right, major: 0, minor: 53) } }
            #expect(throws: ControlError.unproven(.wrongKeys)) {
                try StoreProof.require(client, mount, of: store, with: right)
            }
        }
    }
}
