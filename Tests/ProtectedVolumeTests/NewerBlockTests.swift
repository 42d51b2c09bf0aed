// Blocks that a newer version has made: the others are read, and no rule for crashes touches them.

import BackingStore
import HostSystem
@testable import MemoryStore
import KeyFiles
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct NewerBlockTests {
    private static let size = 20_000

    /// A file of five pages whose block `block` is newer, mounted again as after a crash.
    private func scene(
        _ block: UInt64, afterACrash: Bool = false, options: VolumeOptions = VolumeOptions(),
        _ change: @escaping (inout [UInt8]) -> Void
    ) throws -> TestVolume {
        let it = try TestVolume()
        try it.fill("f", [UInt8](repeating: 7, count: Self.size))
        try it.write("other", "other")
        try it.signBlock("f", block, change)
        if !afterACrash { try it.volume.close() }
        return try it.mountAgain(it.directory, options: options)
    }

    /// Unknown flags, a reserved byte, and lengths that no block of this version has.
    private static let changes: [@Sendable (inout [UInt8]) -> Void] = [
        { $0[2] |= 2 }, { $0[2] |= 0x80 }, { $0[3] = 1 }, { $0[0...1] = [0xFF, 0xFF] }, { $0[0...1] = [1, 0] },
    ]

    @Test func aBlockInTheMiddle() throws {
        for change in Self.changes {
            let it = try scene(2, change)
            let node = try it.node("f")
            let content = try it.volume.open(node, writable: true)
            let geometry = content.geometry
            let start = Int(geometry.start(ofBlock: 2))
            let end = Int(geometry.start(ofBlock: 3))
            #expect(try content.get(0..<start) == [UInt8](repeating: 7, count: start))
            #expect(try content.get(end..<Self.size).count == Self.size - end)
            try it.refuses(.block, "read") { () throws(VolumeError) in _ = try content.get(start..<start + 1) }
            try it.refuses(.block, "a part of it") { () throws(VolumeError) in try content.put([1], at: start + 3) }
            try it.refuses(.block, "zeros in it") { () throws(VolumeError) in
                try content.allocate(.zeroKeepingSize, at: UInt64(start) + 3, length: 7)
            }
            try it.refuses(.block, "a cut into it") { () throws(VolumeError) in
                try content.truncate(to: UInt64(start) + 9)
            }
            try it.refuses(.block, "a hole up to it") { () throws(VolumeError) in
                try content.allocate(.punch, at: 100, length: UInt64(start))
            }
            #expect(content.size == UInt64(Self.size))
            try content.put([1, 2, 3], at: 5)
            try content.put([1, 2, 3], at: end + 5)
            #expect(try content.get(end..<end + 9).count == 9)
            it.volume.release(node, writable: true)
            #expect(it.newerNotices == 1)
        }
    }

    /// What replaces all of the block, or drops it, needs nothing of it, as a program expects that truncates and writes anew.
    @Test func aBlockThatIsReplacedWhole() throws {
        for use in 0..<4 {
            let it = try scene(2) { $0[2] |= 2 }
            let node = try it.node("f")
            let content = try it.volume.open(node, writable: true)
            var expected = [UInt8](repeating: 7, count: Self.size)
            let start = Int(content.geometry.start(ofBlock: 2))
            let end = Int(content.geometry.start(ofBlock: 3))
            switch use {
            case 0:
                try content.put([UInt8](repeating: 9, count: end - start), at: start)
                expected.replaceSubrange(start..<end, with: [UInt8](repeating: 9, count: end - start))
            case 1:
                try content.truncate(to: 0, access: .open)
                expected = []
            case 2:
                try content.truncate(to: UInt64(start) - 1)
                expected.removeLast(Self.size - start + 1)
            default:
                try content.allocate(.punch, at: UInt64(start), length: UInt64(end - start))
                expected.replaceSubrange(start..<end, with: [UInt8](repeating: 0, count: end - start))
            }
            #expect(try content.getAll() == expected)
            it.volume.release(node, writable: true)
            let again = try it.again()
            let after = try again.node("f")
            #expect(try again.volume.open(after, writable: false).getAll() == expected)
            again.volume.release(after, writable: false)
            #expect(again.newerNotices == 0)
        }
    }

    /// The class is known, so a save by rename works as over any file.
    @Test func aRenameOverIt() throws {
        let it = try scene(2) { $0[2] |= 2 }
        try it.rename("other", "f")
        #expect(try it.read("f") == "other")
    }

    @Test(arguments: [0, 4] as [UInt64]) func theEndsDecideTheSize(_ block: UInt64) throws {
        for change in Self.changes.prefix(block == 4 ? 4 : 5) {
            for isRecovering in [false, true] {
                var options = VolumeOptions()
                options.recovers = isRecovering
                let it = try scene(block, afterACrash: true, options: options, change)
                #expect(try it.volume.attributes(of: it.node("f")).size == UInt64(Self.size))
                try it.refuses(.block, "open") { () throws(VolumeError) in
                    _ = try it.volume.open(it.node("f"), writable: true)
                }
                if block == 0 {
                    try it.refuses(.block, "rename over it") { () throws(VolumeError) in try it.rename("other", "f") }
                }
                try it.unlink("f")
            }
        }
    }

    /// Rule R5 reads the middle before the first modification.
    @Test func nothingIsMendedAroundIt() throws {
        let it = try scene(2, afterACrash: true) { $0[2] |= 4 }
        let node = try it.node("f")
        let content = try it.volume.open(node, writable: true)
        #expect(try content.get(0..<100).count == 100)
        try it.refuses(.block, "write") { () throws(VolumeError) in try content.put([1], at: 0) }
        try it.refuses(.block, "repair") { () throws(VolumeError) in try content.repair() }
        it.volume.release(node, writable: true)
    }

    /// A file of `count` pages after a crash that has lost page 10. `newer` is a block of a newer version.
    private func crashed(_ count: Int, newer: UInt64) throws -> TestVolume {
        let it = try TestVolume()
        try it.fill("f", [UInt8](repeating: 7, count: 3932 + (count - 1) * 4060))
        try it.fill("other", [UInt8](repeating: 8, count: 3932 + (count - 1) * 4060))
        try it.signBlock("f", newer) { $0[2] |= 4 }
        for name in ["f", "other"] { try it.damage(name, at: 10 * 4096, [UInt8](repeating: 0, count: 4096)) }
        return try it.mountAgain(it.directory)
    }

    /// All of a middle is checked before anything of it is written.
    @Test func nothingBeforeItIsMended() throws {
        let it = try crashed(200, newer: 150)
        let node = try it.node("f")
        let content = try it.volume.open(node, writable: true)
        try it.refuses(.block, "write") { () throws(VolumeError) in try content.put([1], at: 0) }
        try it.refuses(.block, "repair") { () throws(VolumeError) in try content.repair() }
        it.volume.release(node, writable: true)
    }

    /// The mender of a long file stops at the block, has written nothing, and waits until the file is opened anew.
    @Test func theMenderLeavesTheFile() throws {
        let it = try crashed(600, newer: 400)
        let node = try it.node("f")
        let other = try it.node("other")
        let otherContent = try it.volume.open(other, writable: true)
        try otherContent.put([1], at: 0)
        for _ in 0..<2 {
            let content = try it.volume.open(node, writable: true)
            try content.put([1], at: 0)
            #expect(content.canBeMended)
            let before = try it.bytes("f")
            var rounds = 0
            while rounds < 100, it.volume.mendSome(mayGoOn: { true }) { rounds += 1 }
            #expect(rounds < 100 && content.isUnmended && !content.canBeMended)
            #expect(try it.bytes("f") == before)
            #expect(!otherContent.isUnmended && it.volume.content.mending.isEmpty)
            try it.refuses(.block, "repair") { () throws(VolumeError) in try content.repair() }
            // The rest of the file works meanwhile.
            #expect(try content.get(10 * 4096..<10 * 4096 + 1) == [0])
            it.volume.release(node, writable: true)
        }
        #expect(it.newerNotices == 1)
        it.volume.release(other, writable: true)
        // Its damage stays tolerated after a clean end.
        let again = try it.again()
        let node2 = try again.node("f")
        let content = try again.volume.open(node2, writable: false)
        #expect(try content.get(10 * 4096..<10 * 4096 + 1) == [0])
        again.volume.release(node2, writable: false)
    }

    /// Page 0 says LAST, as after a cut that a crash has interrupted. A newer page behind it is not dropped.
    @Test func aNewerLastPageIsNotCutAway() throws {
        let it = try scene(4, afterACrash: true) { $0[2] |= 4 }
        try it.signBlock("other", 0) { _ in }
        let first = try TestVolume(it.keys, it.directory, it.states)
        let (directory, entry) = try first.backing("f")
        let file = try directory.openFile(entry, .readWrite)
        let content = try FileContent.openDamaged(in: first.volume.content, backing: file)
        try content.rewriteFirstPageAsLast()
        let again = try it.mountAgain(it.directory)
        try again.refuses(.block, "open") { () throws(VolumeError) in
            _ = try again.volume.open(again.node("f"), writable: true)
        }
    }

    @Test func itIsNotSalvaged() throws {
        let it = try scene(2) { $0[2] |= 2 }
        let (directory, entry) = try it.backing("f")
        let file = try directory.openFile(entry, .readWrite)
        let content = try FileContent.openDamaged(in: it.volume.content, backing: file)
        #expect(throws: VolumeError.newer(.block)) { try content.salvage(into: nil) { true } }
    }

    @Test func aWrongTagIsDamage() throws {
        let it = try scene(2) { _ in }
        let start = PageGeometry(suite: .aes256GCM).fieldRange(ofBlock: 2).lowerBound
        try it.damage("f", at: UInt64(2 * 4096 + start + 2), [2])
        let node = try it.node("f")
        let content = try it.volume.open(node, writable: false)
        #expect(throws: VolumeError.damaged(.block)) { try content.getAll() }
        it.volume.release(node, writable: false)
    }
}

extension TestVolume {
    /// The bytes of a file in the store.
    fileprivate func bytes(_ path: String) throws -> [UInt8] {
        let (directory, entry) = try backing(path)
        var bytes = [UInt8](repeating: 0, count: Int(try directory.status(of: entry).size))
        var raw = bytes.mutableSpan
        _ = try directory.openFile(entry, .readOnly).read(into: &raw, at: 0)
        return bytes
    }
}

extension FileContent {
    /// Leaves page 0 as a cut into it leaves it: LAST, and the later pages are still there.
    fileprivate func rewriteFirstPageAsLast() throws(VolumeError) {
        var now = snapshot
        now.wasCut(to: UInt64(geometry.firstCapacity))
        try rewritePage(0, in: now, toSize: 100, tolerating: true, .other)
    }
}
