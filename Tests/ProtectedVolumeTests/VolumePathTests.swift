// Paths of a mount and of its store, in both directions.

import BackingStore
@testable import MemoryStore
import HostSystem
import KeyFiles
import Testing
import VolumeFormat

@testable import ProtectedVolume

@Suite struct VolumePathTests {
    private let it: TestVolume

    init() throws {
        it = try TestVolume()
        try it.mkdir("a")
        try it.mkdir("a/b")
        try it.write("a/b/file")
        try it.write("a/" + String(repeating: "l", count: 200))
        _ = try it.volume.symlink(
            Array("link".utf8), in: it.volume.root, target: [65], caller: TestVolume.caller)
    }

    /// The backing path of a visible one, after both directions agree.
    @discardableResult
    private func both(_ path: [[UInt8]]) throws -> NamedPlace {
        let there = try NamedPlace.find(visible: path, in: it.volume)
        let back = try NamedPlace.find(backing: there.backing, in: it.volume).get()
        #expect(back.visible == path)
        #expect(back.backing == there.backing)
        #expect(back.kind == there.kind && back.standing == there.standing && back.companion == there.companion)
        return there
    }

    @Test func everyKindInEveryState() throws {
        let place = try both(it.split("a/b/file"))
        #expect(place.backing.last == (try it.backing("a/b/file").1))
        #expect(place.kind == .file && place.standing == .verified && place.companion == nil)
        #expect(try both(it.split("a/b")).kind == .directory)
        #expect(try both([]).kind == .directory)
        #expect(try both(it.split("link")).kind == .symlink)
        it.lock()
        #expect(try both(it.split("a/b/file")).backing == place.backing)
        let before = try it.mountAgain(it.directory, unlocked: false)
        #expect(try NamedPlace.find(visible: it.split("a/b/file"), in: before.volume).backing == place.backing)
    }

    @Test func aNameOfAnyBytes() throws {
        let name: [UInt8] = [0x20, 0x0a, 0xff, 0x1b]
        let (entry, _) = try it.volume.create(name, in: it.volume.root, mode: 0o644, caller: TestVolume.caller)
        it.volume.release(entry.node, writable: true)
        #expect(try both([name]).kind == .file)
    }

    @Test func aCompanionStandsForItsEntry() throws {
        let place = try both([Array("a".utf8), Array(repeating: UInt8(ascii: "l"), count: 200)])
        let companion = try #require(place.companion)
        #expect(Array(companion.bytes) == Array(try #require(place.backing.last).bytes) + Array(".n".utf8))
        let other = try NamedPlace.find(backing: place.backing.dropLast() + [companion], in: it.volume).get()
        #expect(other.visible == place.visible && other.backing == place.backing)
    }

    @Test func whatIsMissing() throws {
        #expect(throws: VolumeError.noEntry) { try NamedPlace.find(visible: it.split("a/none"), in: it.volume) }
        let place = try NamedPlace.find(visible: it.split("a/none"), in: it.volume, missing: true)
        #expect(place.kind == nil)
        // It is the place that the name then gets.
        try it.write("a/none")
        #expect(try NamedPlace.find(visible: it.split("a/none"), in: it.volume).backing == place.backing)
        #expect(throws: VolumeError.noEntry) {
            try NamedPlace.find(visible: it.split("a/zero/none"), in: it.volume, missing: true)
        }
        #expect(throws: VolumeError.refused(.ENOTDIR)) {
            try NamedPlace.find(visible: it.split("a/none/x"), in: it.volume)
        }
        #expect(throws: VolumeError.nameTooLong) {
            try NamedPlace.find(visible: [Array(repeating: 65, count: 256)], in: it.volume, missing: true)
        }
        #expect(throws: VolumeError.noEntry) {
            try NamedPlace.find(backing: [#require(EntryName("lNY3UTxYzHZ_7354HlsTnpg"))], in: it.volume).get()
        }
    }

    @Test func reservedAndForeignNames() throws {
        func kind(_ name: String) throws -> NamelessPlace? {
            guard case .failure(let reason) = try NamedPlace.find(backing: [#require(EntryName(name))], in: it.volume)
            else {
                return nil
            }
            return reason
        }
        #expect(try kind(".protectfs.keybag") == NamelessPlace(kind: .keybag))
        #expect(try kind(".protectfs.dir") == NamelessPlace(kind: .record))
        #expect(try kind(".protectfs.lost+found") == NamelessPlace(kind: .lostAndFound))
        let foreign = try #require(EntryName("foreign"))
        _ = try it.directory.createFile(foreign, mode: 0o600)
        let place = try NamedPlace.find(backing: [foreign], in: it.volume).get()
        #expect(place.standing == .undecryptable)
        #expect(try both(place.visible).backing == [foreign])
    }

    @Test func namesThatNothingProves() throws {
        try it.volume.directory(it.node("a")).unlink(BackingName.record)
        let again = try it.mountAgain(it.directory)
        let node = try again.node("a")
        let shown = try #require(try again.list(node).first { String(decoding: $0, as: UTF8.self).hasSuffix("-b") })
        let place = try NamedPlace.find(visible: [Array("a".utf8), shown, Array("file".utf8)], in: again.volume)
        #expect(place.standing == .unverified && place.kind == .file)
        let back = try NamedPlace.find(backing: place.backing, in: again.volume).get()
        #expect(back.visible == place.visible && back.standing == .unverified)
        // Where a name would be is not known without the directory's ID.
        #expect(throws: VolumeError.noEntry) {
            try NamedPlace.find(visible: again.split("a/c"), in: again.volume, missing: true)
        }
    }

    /// Lookups that are counted are taken back.
    @Test func nothingStaysKnown() throws {
        let before = try it.mountAgain(it.directory)
        let count = before.volume.knownNodeCount
        let place = try NamedPlace.find(visible: it.split("a/b/file"), in: before.volume)
        _ = try NamedPlace.find(backing: place.backing, in: before.volume)
        _ = try? NamedPlace.find(visible: it.split("a/b/none"), in: before.volume)
        #expect(before.volume.knownNodeCount == count)
    }
}
