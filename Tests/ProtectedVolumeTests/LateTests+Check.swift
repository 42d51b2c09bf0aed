// Tests what a check keeps of late records whose files it has not found.

import BackingStore
@testable import MemoryStore
import HostSystem
import KeyFiles
import Keybag
import TestSupport
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

extension LateTests {
    /// A file that was not found may be where a check does not look. Its records are kept.
    @Test(arguments: ["lost+found", ".protectfs.lost+found", ".protectfs.later"])
    func aCheckDropsNothingOfWhatMayBeElsewhere(place: String) throws {
        for isEmpty in [false, true] {
            let scene = try LateScene()
            scene.it.lock()
            try scene.late("new")
            try scene.it.unlink("f")
            try scene.it.volume.close()
            let root = scene.store.crash(seed: 1).root
            let name = try #require(EntryName(place))
            try root.createDirectory(name, mode: 0o700)
            let inside = try #require(EntryName("#12"))
            if !isEmpty { _ = try root.openDirectory(name).createFile(inside, mode: 0o600) }
            let ring = try scene.it.keys.ring()
            try scene.it.keys.unlock(ring)
            let states = StateFileStore(directory: scene.it.states.root, volumeID: ring.volumeID)
            let notes = Lock(0)
            let summary = try Check.run(directory: root, keys: ring, states: states) { finding in
                if finding.severity == .note { notes.withLock { $0 += 1 } }
            }
            #expect(summary.notes == notes.withLock { $0 })
            let isDropped = isEmpty && place == "lost+found"
            #expect(try states.load()?.layout.openLocks.isEmpty == isDropped)
        }
    }

    /// Late files of someone else take the places of the list only until the first unlock.
    @Test func refusedLateFilesTakeNoPlaces() throws {
        let scene = try LateScene()
        scene.it.lock()
        try scene.late("one")
        try scene.it.volume.persistLateRecords()
        let number = try #require(scene.openLocks.first?.number)
        var bytes = try Self.bytes(scene.store, scene.lateFiles[0])
        try scene.it.unlock()
        try scene.it.volume.close()
        let (root, name) = (scene.store.root, BackingName.known)
        let others = (0..<UInt64(StateFileLayout.maximumLocks)).map { number + 1000 + $0 }
        for other in others {
            var span = bytes.mutableSpan
            span.storeLittleEndian(other, at: 32)
            let file = try root.createFile(name(LateFileName.bytes(of: other)), mode: 0o600)
            try file.write(bytes.span, at: 0)
        }
        let states = StateFileStore(directory: scene.it.states.root, volumeID: scene.it.volume.keys.volumeID)
        try states.update { $0?.layout.openLocks = others.map { .init(number: $0) } }
        let again = try scene.it.mountAgain(root)
        #expect(try states.load()?.layout.openLocks.isEmpty == true)
        #expect(LateScene.lateFiles(scene.store).count == others.count)
        let node = try again.node("f")
        let content = try again.volume.open(node, writable: true)
        again.lock()
        try again.volume.writeLate(Array("two".utf8).span, at: 0, to: content)
        try again.volume.synchronize(node, dataOnly: true)
        try again.unlock()
        #expect(try TestVolume.bytes(of: content) == "two old old")
    }

    /// Two mounts of a shared store on one machine: the second one leaves the late file of the first one alone, until that dies.
    /// Then the second one takes it over at an unlock, or a third one when it is mounted.
    @Test(arguments: [false, true]) func aLateFileOfALivingMountIsLeftAlone(isMounted: Bool) throws {
        let holder = try TemporaryDirectory()
        let root = try HostDirectory.open(path: holder.path)
        var options = VolumeOptions()
        options.isShared = true
        let made = try TestVolume(root)
        try made.write("f", "old old old")
        try made.setClass("f", "A")
        try made.volume.close()
        var other: TestVolume?
        do {
            let first = try made.mountAgain(root, options: options)
            let node = try first.node("f")
            let content = try first.volume.open(node, writable: true)
            first.lock()
            try first.volume.writeLate(Array("new".utf8).span, at: 0, to: content)
            try first.volume.synchronize(node, dataOnly: true)
            let second = try made.mountAgain(root, options: options)
            #expect(try second.read("f") == "old old old")
            #expect(try LateScene.openLocks(made.states, made).count == 1)
            #expect(second.notices.withLock { $0 }.filter { $0.hasPrefix("late(") } == [])
            try first.volume.writeLate(Array("er".utf8).span, at: 3, to: content)
            try first.volume.synchronize(node, dataOnly: true)
            second.lock()
            try second.unlock()
            #expect(try second.read("f") == "old old old")
            withExtendedLifetime(first) {}
            other = second
        }
        // The first one has died without an unlock.
        if isMounted {
            let second = try #require(other)
            second.lock()
            try second.unlock()
            #expect(try second.read("f") == "newerld old")
        } else {
            #expect(try made.mountAgain(root, options: options).read("f") == "newerld old")
        }
        #expect(try LateScene.openLocks(made.states, made).isEmpty)
    }
}
