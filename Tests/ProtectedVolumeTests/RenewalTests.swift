// A sync client replaces the record of a directory in a mounted store: the directory was removed and made again elsewhere.

import BackingStore
@testable import MemoryStore
import Glibc
import HostSystem
import KeyFiles
import Testing
import VolumeFormat

@testable import ProtectedVolume

@Suite struct RenewalTests {
    private static let complete = ProtectionClass.complete.canonicalName

    /// A mount whose directory `d` was removed and made again on another machine, after this mount has used it. It has the
    /// file `theirs` then, which came with the new record, and `ours`, which is left from before.
    private func replaced(
        defaultClass: String? = nil, _ before: (TestVolume) throws -> Void = { _ in }
    ) throws -> TestVolume {
        let it = try TestVolume()
        try it.mkdir("d")
        try it.write("d/ours")
        try before(it)
        try replace(it, defaultClass: defaultClass)
        return it
    }

    /// Puts what another machine has made into the directory `d`, which stays the same one. This is what rsync does.
    private func replace(_ it: TestVolume, defaultClass: String? = nil) throws {
        let other = try it.mountAgain(it.directory)
        try other.mkdir("made")
        if let defaultClass { try other.setClass("made", defaultClass) }
        try other.write("made/theirs", "their content")
        let made = try other.volume.directory(other.node("made"))
        let directory = try other.volume.directory(other.node("d"))
        for entry in try made.entries() { try made.rename(entry.name, to: directory, entry.name) }
        try other.rmdir("made")
    }

    private func soon() { usleep(120_000) }

    /// What another mount lists in `d`.
    private func names(_ it: TestVolume) throws -> [String] {
        try it.mountAgain(it.directory).list("d").filter { !$0.hasPrefix(".undecryptable-") }
    }

    @Test(arguments: ["create", "mkdir", "mknod", "symlink", "link", "rename", "rename within"])
    func whatIsMadeHasANameUnderTheNewRecord(_ how: String) throws {
        let it = try replaced { it in
            try it.write("before")
            _ = try it.list("d")
        }
        let (parent, name) = (try it.node("d"), Array("new".utf8))
        switch how {
        case "create": try it.write("d/new")
        case "mkdir": try it.mkdir("d/new")
        case "mknod":
            _ = try it.volume.mknod(name, in: parent, mode: 0o010644, device: 0, caller: TestVolume.caller)
        case "symlink": _ = try it.volume.symlink(name, in: parent, target: name, caller: TestVolume.caller)
        case "link": _ = try it.volume.link(it.node("before"), name, in: parent)
        case "rename": try it.rename("before", "d/new")
        default: try it.rename("d/theirs", "d/new")
        }
        #expect(try names(it) == (how == "rename within" ? ["new"] : ["new", "theirs"]))
    }

    @Test func whatCameIsFoundAndRead() throws {
        let it = try replaced()
        soon()
        #expect(try it.read("d/theirs") == "their content")
        let again = try replaced()
        soon()
        #expect(try again.list("d").contains("theirs"))
    }

    @Test func theKernelIsToldOnceOfEachReplacement() throws {
        let it = try TestVolume()
        try it.mkdir("d")
        try it.write("d/ours")
        let told = Lock<[UInt64]>([])
        it.volume.whenRenewed { node in told.withLock { $0.append(node.number) } }
        let node = try it.node("d")
        for count in 1...3 {
            try replace(it)
            try it.write("d/new \(count)")
            try it.write("d/more \(count)")
            #expect(told.withLock { $0 } == Array(repeating: node.number, count: count))
            try it.unlink("d/theirs")
        }
        let place = try #require(it.volume.shownPlace(of: node))
        #expect(place.parent === it.volume.root && place.name == Array("d".utf8))
    }

    @Test func newFilesTakeTheNewDefaultClass() throws {
        let it = try replaced(defaultClass: "complete")
        try it.write("d/new")
        #expect(try it.getClass("d/new") == Self.complete)
        #expect(try it.getClass("d") == Self.complete)
    }

    /// A changed class of a directory, and no other ID, comes in the same way.
    @Test func aClassThatAnotherMachineGaveCounts() throws {
        let it = try TestVolume()
        try it.mkdir("d")
        try it.write("d/ours")
        try it.mountAgain(it.directory).setClass("d", "complete")
        try it.write("d/new")
        #expect(try it.getClass("d/new") == Self.complete)
        #expect(try it.read("d/ours") == "x")
    }

    /// Otherwise the former ID would be written over the new one.
    @Test func aClassThatIsSetHereKeepsTheNewRecord() throws {
        let it = try replaced()
        try it.setClass("d", "complete")
        #expect(try names(it) == ["theirs"])
    }

    @Test func attributesAreBoundToTheNewRecord() throws {
        let it = try replaced { try $0.volume.setXattr($0.node("d"), Array("user.a".utf8), value: [1], mode: .set) }
        try it.volume.setXattr(it.node("d"), Array("user.b".utf8), value: [2], mode: .set)
        let again = try it.mountAgain(it.directory)
        #expect(try again.volume.getXattr(again.node("d"), Array("user.b".utf8)) == [2])
    }

    /// Names of families that were read under the former record do not count as all there are.
    @Test func familiesAreReadAgain() throws {
        let it = try replaced { try $0.write("d/other") }
        let other = try it.mountAgain(it.directory)
        try other.write("d/base")
        try other.setClass("d/base", "complete")
        try it.write("d/base~")
        #expect(try it.getClass("d/base~") == Self.complete)
    }

    /// A sync client that works in another order takes the record away first.
    @Test func nothingIsMadeWithoutARecord() throws {
        let it = try TestVolume()
        try it.mkdir("d")
        try it.write("d/ours")
        let directory = try it.volume.directory(it.node("d"))
        try directory.rename(BackingName.record, to: it.volume.rootDirectory, BackingName.temporary())
        #expect(throws: VolumeError.damaged(.missingRecord)) { try it.write("d/new") }
        try replace(it)
        try it.write("d/newer")
        #expect(try names(it) == ["newer", "theirs"])
    }

    /// Removing and refusing to remove take the record away and put it back, which is no replacement.
    @Test func ourOwnRemovalsAreNoReplacement() throws {
        let it = try TestVolume()
        let node = try it.mkdir("d")
        try it.mkdir("d/below")
        it.volume.whenRenewed { _ in Issue.record("told") }
        #expect(throws: VolumeError.notEmpty) { try it.rmdir("d") }
        try it.setClass("d", "complete")
        try it.rmdir("d/below")
        try it.write("d/f")
        try it.unlink("d/f")
        try it.rmdir("d")
        #expect(throws: VolumeError.stale) {
            try it.volume.create(Array("f".utf8), in: node, mode: 0o644, caller: TestVolume.caller)
        }
    }

    /// One look for each object that is made, and none for what is found.
    @Test func aComparisonIsOneCall() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.mkdir("d")
        try it.write("d/first")
        let record = try it.volume.directory(it.node("d")).status(of: BackingName.record).inode
        store.clearRecords()
        try it.write("d/second")
        _ = try it.node("d/first")
        #expect(store.records.filter { $0.object == record || $0.call == .readSymlink }.map(\.call) == [.status])
    }
}
