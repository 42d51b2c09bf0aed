// The inspection of single objects: every refusal names its page and its reason, and nothing is written.

import BackingStore
@testable import MemoryStore
import HostSystem
import KeyFiles
import Keybag
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct InspectorTests {
    private let it: TestVolume
    private let store: MemoryStore
    private static let size = 14_000

    init() throws {
        store = MemoryStore()
        it = try TestVolume(store.root)
        try it.write("f", String(repeating: "0123456789", count: Self.size / 10))
        try it.write("g", String(repeating: "9876543210", count: Self.size / 10))
        try it.mkdir("d")
        _ = try it.volume.symlink(Array("l".utf8), in: it.volume.root, target: [65, 66], caller: TestVolume.caller)
        try it.volume.close()
    }

    private func inspector(unlocked: Bool = true) throws -> Inspector {
        let ring = try it.keys.ring()
        if unlocked { try it.keys.unlock(ring) }
        return try Inspector(
            store: store.root.reopen(), keys: ring,
            state: StateFileStore(directory: it.states.root, volumeID: ring.volumeID))
    }

    private func file(_ path: String = "f") throws -> BackingFile {
        let (directory, entry) = try it.backing(path)
        return try directory.openFile(entry, .readWrite)
    }

    private func look(
        _ path: String = "f", unlocked: Bool = true, alone: Bool = false
    ) throws -> (file: InspectedFile, runs: [InspectedRun]) {
        var runs: [InspectedRun] = []
        let found = try inspector(unlocked: unlocked).look(at: file(path), alone: alone, begin: { _ in true }) {
            runs.append($0)
            return true
        }
        return (found, runs)
    }

    private func states(_ runs: [InspectedRun]) -> [String] {
        runs.map { "\($0.pages.lowerBound)-\($0.pages.upperBound - 1) \($0.page.state)" }
    }

    @Test func aSoundFile() throws {
        store.clearRecords()
        let (found, runs) = try look()
        #expect(store.records.contains { $0.call == .read } && !store.records.contains { $0.call.changes })
        #expect(found.error == nil && found.headerError == nil && !found.wasChanged && found.evidence.isEmpty)
        #expect(found.size == UInt64(Self.size) && found.length == 4 * 4096 + 14_000 - 3932 - 2 * 4060)
        #expect(found.header?.protectionClass == .completeUntilFirstUserAuthentication)
        #expect(states(runs) == ["0-0 verified", "1-2 verified", "3-3 verified"])
        #expect(runs.map { $0.page.field?.payloadLength } == [3932, 4060, 14_000 - 3932 - 2 * 4060])
        #expect(runs.map { $0.page.field?.isLast } == [false, false, true])
        #expect(try look(alone: true).runs.map(\.pages.count) == [1, 1, 1, 1])
    }

    /// A byte of each region, and what is refused because of it.
    @Test func oneByteOfEachRegion() throws {
        let original = try file().bytes()
        for (offset, header, error, refused) in [
            // Header: MAC, file ID, wrapped key.
            (120, VolumeError.damaged(.header), VolumeError.damaged(.header), [] as [UInt64]),
            (20, .damaged(.header), .damaged(.header), []), (40, .damaged(.header), .damaged(.header), []),
            // Block 0: nonce, ciphertext, tag.
            (130, nil, .damaged(.block), [0]), (2000, nil, .damaged(.block), [0]), (4090, nil, .damaged(.block), [0]),
            // A middle block: nonce, the field's length, the field's epoch, ciphertext, tag.
            (4097, nil, nil, [1]), (4108, nil, nil, [1]), (4113, nil, nil, [1]), (6000, nil, nil, [1]),
            (8191, nil, nil, [1]),
            // The last block, and the bytes of the tail.
            (3 * 4096 + 50, nil, .damaged(.block), [3]),
        ] as [(UInt64, VolumeError?, VolumeError?, [UInt64])] {
            try file().write([original[Int(offset)] ^ 1].span, at: offset)
            let (found, runs) = try look()
            #expect(found.headerError == header && found.error == error, "\(offset)")
            let bad = runs.filter { if case .refused = $0.page.state { true } else { false } }
            #expect(bad.flatMap { Array($0.pages) } == refused, "\(offset)")
            if header != nil { #expect(states(runs).allSatisfy { $0.hasSuffix("unchecked") }, "\(offset)") }
            try file().write([original[Int(offset)]].span, at: offset)
        }
        #expect(try look().file.error == nil)
    }

    @Test func anInvalidFieldIsNoClaim() throws {
        try file().write([0xff, 0xff].span, at: 4096 + 12)
        let page = try #require(try look().runs.first { $0.pages.contains(1) }).page
        #expect(page.state == .refused(.damaged(.block)) && page.field == nil)
    }

    @Test func exchangedPagesHeadersAndFiles() throws {
        let (f, g) = (try file("f").bytes(), try file("g").bytes())
        try file().write(Array(g[4096..<8192]).span, at: 4096)
        let refused = try look().runs.filter { $0.page.state == .refused(.damaged(.block)) }
        #expect(refused.flatMap { Array($0.pages) } == [1])
        // Another file's header verifies, but block 0 and the rest are not of that file.
        try file().write(Array(g[..<128]).span, at: 0)
        let (found, runs) = try look()
        #expect(found.headerError == nil && found.error == .damaged(.block))
        #expect(runs.filter { $0.page.state == .verified }.flatMap { Array($0.pages) } == [1])
        // A whole file exchanged verifies: its body belongs to its ID, and not to its name.
        try file().write(g.span, at: 0)
        #expect(try look().file.error == nil)
        #expect(try look().file.header?.fileID == look("g").file.header?.fileID)
        #expect(try look().file.header?.fileID != ObjectID(f.span, at: 16))
    }

    @Test func cutZeroedAndExtended() throws {
        let all = try file().bytes()
        try file().truncate(to: 3 * 4096)
        #expect(try look().file.error == .damaged(.length))
        #expect(states(try look().runs) == ["0-0 verified", "1-2 verified"])
        try file().truncate(to: 100)
        #expect(try look().file.headerError == .damaged(.missingHeader))
        #expect(try look().runs.isEmpty)
        try file().truncate(to: 0)
        #expect(try look().file.headerError == .damaged(.missingHeader))
        try file().write(all.span, at: 0)
        try file().truncate(to: UInt64(all.count))
        #expect(try look().file.error == nil)
        try file().write([UInt8](repeating: 0, count: 4096).span, at: 4096)
        let (found, runs) = try look()
        #expect(found.error == nil && found.size == UInt64(Self.size))
        #expect(runs.first { $0.pages.contains(1) }?.page.state == .refused(.damaged(.zeroPage)))
        try file().write([UInt8](repeating: 0, count: 4096).span, at: 0)
        #expect(try look().file.headerError == .damaged(.missingHeader))
    }

    @Test func crashDamageIsShownAndTolerated() throws {
        // As a mount that crashed leaves it: its epoch stays listed.
        let crashed = try it.mountAgain(store.root)
        try crashed.write("c", String(repeating: "x", count: 14_000))
        try crashed.unlink("g")
        let (directory, entry) = try crashed.backing("c")
        let file = try directory.openFile(entry, .readWrite)
        try file.write([UInt8](repeating: 0, count: 4096).span, at: 4096)
        try file.truncate(to: 8 * 4096)
        var runs: [InspectedRun] = []
        let found = try inspector().look(at: file, begin: { _ in true }) {
            runs.append($0)
            return true
        }
        #expect(found.error == nil && found.size == 14_000)
        #expect(found.evidence.map(\.kind) == [.droppedZeroPages])
        #expect(runs.first { $0.pages.contains(1) }?.page == InspectedPage(state: .zeros, evidence: .zeroPage))
        #expect(runs.first { $0.pages.contains(7) }?.page.state == .dropped)
        // Never written: an empty file, by rule R0.
        try file.truncate(to: 0)
        let empty = try inspector().look(at: file, begin: { _ in true }) { _ in true }
        #expect(empty.hasNoHeader && empty.size == 0 && empty.error == nil)
    }

    /// Damage in a file that a program changes meanwhile may be none.
    @Test func aChangeMeanwhileIsNoticed() throws {
        let file = try file()
        var states: [InspectedPage.State] = []
        let found = try inspector().look(
            at: file,
            begin: { _ in
                let bytes: [UInt8] = [1, 2, 3]
                try? file.write(bytes.span, at: 5000)
                return true
            },
            report: { run in
                states.append(run.page.state)
                return true
            })
        #expect(found.wasChanged && states.contains(.refused(.damaged(.block))))
        #expect(try !look().file.wasChanged)
        // Ends where its reader wants it to.
        var count = 0
        _ = try inspector().look(at: file, alone: true, begin: { _ in true }) { _ in
            count += 1
            return count < 2
        }
        #expect(count == 2)
    }

    @Test func holesAreOneRun() throws {
        let node = try it.node("f")
        let content = try it.volume.open(node, writable: true)
        try content.truncate(to: 1 << 40)
        it.volume.release(node, writable: true)
        try it.volume.close()
        let (found, runs) = try look()
        #expect(found.size == 1 << 40 && found.error == nil)
        #expect(runs.count == 5 && runs[3].page.state == .hole, "\(states(runs))")
        #expect(runs[3].pages.count > 200_000_000)
    }

    @Test func withoutTheKeyOfTheClass() throws {
        let (found, runs) = try look(unlocked: false)
        #expect(found.headerError == nil && found.error == .locked(.completeUntilFirstUserAuthentication))
        #expect(found.header != nil && found.size == nil)
        #expect(states(runs) == ["0-0 unchecked", "1-2 unchecked", "3-3 unchecked"])
        #expect(runs[0].page.field?.payloadLength == 3932)
        try it.setClass("f", "none")
        try it.volume.close()
        #expect(states(try look(unlocked: false).runs) == ["0-0 verified", "1-2 verified", "3-3 verified"])
    }

    @Test func readErrorsAreNotDamage() throws {
        var unread: Set<UInt64> = []
        for count in 1...10 {
            // The pages are read together, and then one by one.
            store.fail(.read, at: count, with: .EIO)
            store.fail(.read, at: count + 1, with: .EIO)
            do throws(VolumeError) {
                for run in try runs() {
                    switch run.page.state {
                    case .verified: break
                    case .refused(.store(.EIO)): unread.formUnion(run.pages)
                    default: Issue.record("\(run)")
                    }
                }
            } catch { #expect(error == .store(.EIO)) }
            store.clearFaults()
        }
        #expect(unread == [0, 1])
    }

    private func runs() throws(VolumeError) -> [InspectedRun] {
        do { return try look().runs } catch let error as VolumeError { throw error } catch { throw .invalid }
    }

    @Test func recordsAndTargets() throws {
        let inspector = try inspector()
        let root = try store.root.reopen()
        #expect(try inspector.record(of: root, isRoot: true).error == nil)
        let directory = try it.volume.directory(it.node("d"))
        #expect(try inspector.record(of: directory, isRoot: false).error == nil)
        // A right record of another directory is not the root's.
        #expect(try inspector.record(of: directory, isRoot: true).error == .damaged(.record))
        try it.damageRecord("d", byte: 13)
        let damaged = try inspector.record(of: directory, isRoot: false)
        #expect(damaged.error == .damaged(.record) && damaged.directoryID != nil)
        try directory.unlink(BackingName.record)
        #expect(try inspector.record(of: directory, isRoot: false).error == .damaged(.missingRecord))
        _ = try directory.createFile(BackingName.record, mode: 0o600)
        #expect(try inspector.record(of: directory, isRoot: false).error == .damaged(.record))
        let (above, link) = try it.backing("l")
        #expect(try inspector.target(of: link, in: above).path == [65, 66])
        var target = try above.readSymlink(link)
        target[8] = target[8] == 65 ? 66 : 65
        try above.unlink(link)
        try above.createSymlink(link, target: target)
        #expect(try inspector.target(of: link, in: above).error == .damaged(.symlink))
    }

    @Test func theVolumeMayBeMountedAndNothingIsClaimed() throws {
        let mounted = try it.mountAgain(store.root)
        try Volume.claim(mounted.volume.rootDirectory, VolumeOptions())
        try mounted.write("new", "text")
        #expect(try look("f").file.error == nil)
    }
}

extension BackingFile {
    /// All bytes of the file.
    fileprivate func bytes() throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: Int(try status().size))
        var raw = bytes.mutableSpan
        _ = try read(into: &raw, at: 0)
        return bytes
    }
}
