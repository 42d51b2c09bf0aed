// What a mounted volume needs of former class keys: open files, moves, and what a look through its store finds.

import BackingStore
@testable import MemoryStore
import HostSystem
import KeyFiles
import Keybag
import SodiumKit
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct FormerKeyTests {
    /// Changes the class keys of the volume's keybag, and has the volume take them in.
    private func rotate(_ it: TestVolume) throws -> Set<FormerKey> {
        func text() throws -> SecretBytes { try SecretBytes(copying: Array("p".utf8).span) }
        let next = try it.keys.device.withLock { device throws in
            let given: SecretKey? = try device.copy()
            let keys = try it.keys.bag.unlock(.passphrase(try text()), deviceKey: device)
            return try it.keys.bag.rotating(
                ProtectionClass.allCases, passphrase: try text(), deviceKey: given, keys: keys
            ).keys.copy()
        }
        _ = try it.volume.unlock(with: next, onlyIfUnlocked: true)
        return it.volume.keys.formerKeys
    }

    private func needed(_ it: TestVolume) throws -> Set<FormerKey> {
        try NeededKeys.find(in: it.directory, it.volume.keys.metadata, isMounted: true).keys
    }

    /// Each file needs its former key until it is written anew; new files never do.
    @Test func filesAreWrittenAnew() throws {
        let it = try TestVolume()
        try it.mkdir("d")
        for (name, letter) in ["d/a": "A", "b": "B", "c": "C", "e": "D", "g": "7"] {
            try it.write(name, name)
            try it.setClass(name, letter)
        }
        let former = try rotate(it)
        try it.write("new")
        #expect(try needed(it).intersection(former) == former)
        var left = former
        for name in ["d/a", "b", "c", "e", "g"] {
            let before = try it.getClass(name)
            try it.volume.renewKey(of: it.node(name))
            #expect(try it.getClass(name) == before && it.read(name) == name)
            left = left.filter { $0.number != ProtectionClass(name: before)?.rawValue }
            #expect(try needed(it).intersection(former) == left)
        }
        #expect(it.volume.formerKeyUse.keys.isEmpty && !it.volume.formerKeyUse.hasLateRecords)
    }

    /// Neither the look through the store nor what it leads to calls itself for each level.
    @Test func deeperThanAStack() throws {
        let it = try TestVolume()
        let levels = 1500
        var node = it.volume.root
        for _ in 0..<levels {
            node = try it.volume.mkdir(Array("d".utf8).span, in: node, mode: 0o755, caller: TestVolume.caller).node
        }
        let path = Array(repeating: "d", count: levels) + ["file"]
        try it.write(path.joined(separator: "/"), "content")
        let former = try rotate(it)
        let thread = try #require(
            BackgroundThread(name: "small stack", stackSize: 256 << 10) {
                #expect(throws: Never.self) {
                    var found: [[UInt8]] = []
                    _ = try NeededKeys.find(in: it.directory, it.volume.keys.metadata) { (file, key) in
                        if former.contains(key) { found.append(file) }
                    }
                    let entries = found.first?.split(separator: UInt8(ascii: "/")).compactMap { EntryName(Array($0)) }
                    let place = try NamedPlace.find(backing: entries ?? [], in: it.volume).get()
                    #expect(found.count == 1 && place.visible == path.map { Array($0.utf8) })
                    #expect(try it.volume.renewKey(at: place.visible) { _, _ in true })
                    #expect(try !it.volume.renewKey(at: place.visible) { _, _ in true })
                }
            })
        thread.join()
        #expect(try needed(it).intersection(former).isEmpty)
    }

    /// A killed rewriting leaves its copy, which nothing needs. One that is being made is left alone, and so is everything else.
    @Test func leftCopiesAreRemoved() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.mkdir("d")
        try it.write("d/f", String(repeating: "x", count: 600_000))
        let (directory, _) = try it.backing("d/f")
        func temporaries() throws -> [EntryName] {
            try directory.entries().map(\.name).filter { ReservedName.kind(of: $0.bytes.span) == .temporary }
        }
        func path(_ name: EntryName) throws -> [EntryName] {
            try it.backingPath("d") + [name]
        }
        // The copy as a kill would leave it: the call that removes it after the error fails as well.
        store.inject(.init(calls: [.unlink], countdown: 1, error: .EIO))
        var isRemoved: Bool?
        #expect(throws: VolumeError.refused(.EINTR)) {
            try it.volume.reencrypt(it.node("d/f"), to: .none) { now in
                guard now.done > 100_000 else { return true }
                if let name = try? temporaries().first {
                    isRemoved = try? Leftovers.remove(path(name), from: it.volume)
                }
                return false
            }
        }
        #expect(isRemoved == false)
        let left = try #require(try temporaries().first)
        var bytes = [UInt8](repeating: 0, count: 8192)
        var room = bytes.mutableSpan
        _ = try directory.openFile(left, .readOnly).read(into: &room, at: 0)
        try directory.createSymlink(try #require(EntryName(".protectfs.tmp.link")), target: Array("target".utf8))
        _ = try directory.createFile(try #require(EntryName(".protectfs.tmp.file")), mode: 0o600)
        for name in try temporaries() {
            #expect(try Leftovers.remove(path(name), from: it.volume) == (name == left))
        }
        #expect(try temporaries().count == 2)
        // A look through the store finds the copy with its file beside it. Without, it may be all that there is.
        try directory.createFile(left, mode: 0o600).write(bytes.span, at: 0)
        let key = FormerKey(number: ProtectionClass.none.rawValue, generation: 0)
        func find() throws -> (copies: [[UInt8]], isNeeded: Bool) {
            var copies: [[UInt8]] = []
            let needed = try NeededKeys.find(in: it.directory, it.volume.keys.metadata) { (path, _) in
                if path.reversed().starts(with: left.bytes.reversed()) { copies.append(path) }
            }
            return (copies, needed.keys.contains(key))
        }
        _ = try rotate(it)
        #expect(try find().copies.count == 1 && find().isNeeded)
        try it.rename("d/f", "f")
        #expect(try find() == ([], true) && !Leftovers.remove(path(left), from: it.volume))
        try it.rename("f", "d/f")
        #expect(try Leftovers.remove(path(left), from: it.volume) && find() == ([], false))
        #expect(try it.volume.attributes(of: it.node("d/f")).size == 600_000)
    }

    /// A class that a program sets while a file gets a new key counts: the renewal gives way and undoes nothing.
    @Test func aClassThatIsSetMeanwhileStays() throws {
        let it = try TestVolume()
        try it.write("f", String(repeating: "x", count: 600_000))
        _ = try rotate(it)
        var isSet = false
        #expect(throws: VolumeError.refused(.EBUSY)) {
            try it.volume.renewKey(of: it.node("f")) { _ in
                if !isSet { isSet = (try? it.setClass("f", "A")) != nil }
                return true
            }
        }
        #expect(isSet)
        #expect(try it.getClass("f") == "complete")
    }

    /// After a change of class no power cut brings back a header that needs a former key: the key may be gone by then.
    @Test func aChangeOfClassIsDurable() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("f", "content")
        let (directory, entry) = try it.backing("f")
        try directory.openFile(entry, .readOnly).synchronize(dataOnly: false)
        try directory.synchronize()
        let former = try rotate(it)
        #expect(!(try needed(it).isDisjoint(with: former)))
        try it.setClass("f", "D")
        #expect(try needed(it).isDisjoint(with: former))
        for crashed in store.crashes(atMost: 64) {
            let found = try NeededKeys.find(in: crashed.root, it.volume.keys.metadata, isMounted: true).keys
            #expect(found.isDisjoint(with: former))
        }
    }

    /// A file that is open needs its key, also without a name, and its header may be in memory only.
    @Test func openFilesAreCounted() throws {
        let it = try TestVolume()
        let name = Array("f".utf8)
        let (entry, content) = try it.volume.create(
            name.span, in: it.volume.root, mode: 0o600, caller: TestVolume.caller)
        let former = try rotate(it)
        let key = FormerKey(number: content.protectionClass.rawValue, generation: 0)
        // Page 0 is not written yet.
        #expect(try needed(it).isDisjoint(with: former))
        #expect(it.volume.formerKeyUse.keys == [key])
        try it.unlink("f")
        #expect(it.volume.formerKeyUse.keys == [key])
        it.volume.release(entry.node, writable: true)
        it.volume.forget(entry.node, count: 1)
        #expect(it.volume.formerKeyUse.keys.isEmpty)
    }

    /// Directories, and files with former keys, spoil a look when they move. Other files do not.
    @Test func movesAreCounted() throws {
        let it = try TestVolume()
        try it.mkdir("d")
        try it.write("old")
        try it.write("other")
        _ = try rotate(it)
        try it.write("new")
        func moves(_ body: () throws -> Void) throws -> UInt64 {
            let before = try #require(it.volume.formerKeyUse.moves)
            try body()
            return try #require(it.volume.formerKeyUse.moves) - before
        }
        #expect(try moves { try it.rename("new", "d/new") } == 0)
        #expect(try moves { try it.rename("old", "d/old") } == 1)
        #expect(try moves { try it.rename("d", "e") } == 1)
        #expect(try moves { try it.rename("e/new", "other", .exchange) } == 1)
        #expect(try moves { _ = try it.volume.link(it.node("other"), Array("two".utf8), in: it.volume.root) } == 0)
        #expect(try moves { _ = try it.volume.link(it.node("e/old"), Array("three".utf8), in: it.volume.root) } == 1)
        it.volume.keys.movingHeaders { #expect(it.volume.formerKeyUse.moves == nil) }
    }
}
