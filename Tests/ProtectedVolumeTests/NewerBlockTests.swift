// Blocks that a newer version has made: the others are read, and no rule for crashes touches them.

import BackingStore
import HostSystem
@testable import MemoryStore
import Testing
import VolumeFormat

@testable import ProtectedVolume

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
            // The file is marked before, which writes page 0 again.
            #expect(throws: VolumeError.newer(.block)) { try content.truncate(to: UInt64(start) + 9) }
            #expect(content.size == UInt64(Self.size))
            try content.put([1, 2, 3], at: 5)
            try content.put([1, 2, 3], at: end + 5)
            #expect(try content.get(end..<end + 9).count == 9)
            it.volume.release(node, writable: true)
            #expect(it.newerNotices == 1)
        }
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

extension FileContent {
    /// Leaves page 0 as a cut into it leaves it: LAST, and the later pages are still there.
    fileprivate func rewriteFirstPageAsLast() throws(VolumeError) {
        var now = snapshot
        now.size = UInt64(geometry.firstCapacity)
        try rewritePage(0, in: now, toSize: 100, tolerating: true, .other)
    }
}
