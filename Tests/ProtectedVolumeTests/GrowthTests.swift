// Work that a hostile store asks for grows with its size only: four times as much in the store takes some four times the calls.

import BackingStore
@testable import MemoryStore
import KeyFiles
import Keybag
import HostSystem
import TestSupport
import Testing
import VolumeFormat

@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct GrowthTests {
    /// A store that someone has prepared without any key, of a size, and what is done with it.
    struct Attack: Sendable, CustomTestStringConvertible {
        let testDescription: String
        let prepare: @Sendable (TestVolume, Int) throws -> Void
        let work: @Sendable (TestVolume) throws -> Void

        init(
            _ name: String, _ prepare: @escaping @Sendable (TestVolume, Int) throws -> Void,
            _ work: @escaping @Sendable (TestVolume) throws -> Void
        ) {
            (testDescription, self.prepare, self.work) = (name, prepare, work)
        }
    }

    static let attacks = [
        Attack("check of nested directories without records", nest(takeRecord), check),
        Attack("repair of nested directories without records", nest(takeRecord)) { try check($0, repairs: true) },
        Attack("repair of nested directories of which every other one has no record", nest(takeEveryOtherRecord)) {
            try check($0, repairs: true)
        },
        Attack("repair of nested directories with foreign names, and a newer one at their end", nestForeign) {
            try check($0, repairs: true)
        },
        Attack("check of nested directories with damaged records", nest(damageRecord), check),
        Attack("walk down nested directories without records", nest(takeRecord), walk),
        Attack("walk down nested directories with damaged records", nest(damageRecord), walk),
        Attack("check of records set aside beside empty directories", setAside, check),
        Attack("walk of records set aside beside empty directories", setAside, walk),
        Attack("look-ups in two directories in turn", foreign, lookUpInTurn),
        Attack("look-ups of what two directories do not have", foreign, lookUpMissing),
        Attack("check for IDs that nested directories share", share, check),
    ]

    @Test(arguments: attacks)
    func callsGrowWithTheStore(_ attack: Attack) throws {
        func calls(_ size: Int) throws -> Int {
            let store = MemoryStore()
            let it = try TestVolume(store.root)
            try attack.prepare(it, size)
            try it.volume.close()
            let again = try it.mountAgain(it.directory)
            store.clearRecords()
            try attack.work(again)
            return store.records.count
        }
        let (few, many) = (try calls(40), try calls(160))
        #expect(many < 5 * few, "\(few) calls, and \(many) for four times as much")
    }

    /// What a repair says and logs.
    @Test func textGrowsWithTheStore() throws {
        func bytes(_ size: Int) throws -> Int {
            let it = try TestVolume()
            try Self.nest(name: String(repeating: "n", count: 100), Self.takeRecord)(it, size)
            try it.volume.close()
            let text = Lock(0)
            let outcome = try CheckOutcome.of(it, it.directory) { options in
                options.repairs = true
                options.isConfirmed = { path in
                    text.withLock { $0 += path.count }
                    return false
                }
            }
            let log = try it.directory.openDirectory(BackingName.lostAndFound)
                .status(of: BackingName.known(Array("log".utf8))).size
            return outcome.findings.reduce(Int(log)) { $0 + $1.path.count + $1.backingPath.count }
                + text.withLock { $0 }
        }
        let (few, many) = (try bytes(100), try bytes(400))
        #expect(many < 5 * few, "\(few) bytes, and \(many) for four times as much")
    }

    /// Directories without records in a directory without one: they are not all open at once.
    @Test func repairNeedsFewDescriptors() throws {
        let place = try TemporaryDirectory()
        let it = try TestVolume(place.directory)
        try it.mkdir("wide")
        for number in 0..<200 { try it.mkdir("wide/\(number)") }
        let nodes = try (0..<200).map { try it.node("wide/\($0)") }
        for node in nodes { try Self.takeRecord(it.volume.directory(node)) }
        try Self.takeRecord(it.volume.directory(it.node("wide")))
        try it.volume.close()
        let limited = try HostDirectory.open(path: place.path).limited(by: DescriptorQuota(files: 120, all: 120))
        let outcome = try CheckOutcome.of(it, limited) { $0.repairs = true }
        #expect(outcome.summary.remaining == 0)
        #expect(!outcome.kinds.contains("store"))
    }

    /// Nothing calls itself for each level.
    @Test func deeperThanAStack() throws {
        let it = try TestVolume()
        try Self.nest(Self.takeRecord)(it, 1500)
        try it.volume.close()
        let thread = try #require(
            BackgroundThread(name: "small stack", stackSize: 256 << 10) {
                #expect(throws: Never.self) {
                    let outcome = try CheckOutcome.of(it, it.directory, threads: 1) { $0.repairs = true }
                    #expect(outcome.summary.directories == 1501 && outcome.summary.remaining == 0)
                }
            })
        thread.join()
    }

    // MARK: stores

    /// Directories one in another, on whose records something is done from below.
    private static func nest(
        name: String = "d", _ change: @escaping @Sendable (BackingDirectory) throws -> Void
    ) -> @Sendable (TestVolume, Int) throws -> Void {
        nest(name: name) { (directory, _) in try change(directory) }
    }

    private static func nest(
        name: String = "d", _ change: @escaping @Sendable (BackingDirectory, Int) throws -> Void
    ) -> @Sendable (TestVolume, Int) throws -> Void {
        { it, size in
            var nodes = [it.volume.root]
            for _ in 0..<size {
                let above = nodes[nodes.count - 1]
                nodes.append(
                    try it.volume.mkdir(Array(name.utf8).span, in: above, mode: 0o755, caller: TestVolume.caller).node)
            }
            for (depth, node) in nodes.enumerated().dropFirst().reversed() {
                try change(it.volume.directory(node), depth)
            }
        }
    }

    private static func takeRecord(_ directory: BackingDirectory) throws { try directory.unlink(BackingName.record) }

    private static func takeEveryOtherRecord(_ directory: BackingDirectory, depth: Int) throws {
        if depth % 2 == 1 { try takeRecord(directory) }
    }

    private static func damageRecord(_ directory: BackingDirectory) throws {
        try directory.unlink(BackingName.record)
        try directory.createSymlink(BackingName.record, target: Array("damaged".utf8))
    }

    private static func nestForeign(_ it: TestVolume, _ size: Int) throws {
        var directory: BackingDirectory = it.directory
        for _ in 0..<size {
            let name = BackingName.known(Array("foreign".utf8))
            try directory.createDirectory(name, mode: 0o700)
            directory = try directory.openDirectory(name)
        }
        try directory.createDirectory(BackingName.known(Array(".protectfs.newer".utf8)), mode: 0o700)
    }

    /// Directories one in another, all with one ID.
    private static func share(_ it: TestVolume, _ size: Int) throws {
        let target = try it.volume.directory(it.mkdir("kept")).readSymlink(BackingName.record)
        try nest { directory in
            try directory.unlink(BackingName.record)
            try directory.createSymlink(BackingName.record, target: target)
        }(it, size)
    }

    /// Copies of records under the names of records set aside, beside directories that have none.
    private static func setAside(_ it: TestVolume, _ size: Int) throws {
        try it.mkdir("kept")
        let target = try it.volume.directory(it.node("kept")).readSymlink(BackingName.record)
        for number in 0..<size {
            let node = try it.mkdir("d\(number)")
            try takeRecord(it.volume.directory(node))
            let aside = it.volume.names.asideName(
                parent: it.volume.keys.metadata.rootID, directory: NameCipher.randomID(),
                name: BackingName.temporary())
            try it.directory.createSymlink(aside, target: target)
        }
    }

    /// Two directories with names that do not decrypt.
    private static func foreign(_ it: TestVolume, _ size: Int) throws {
        for name in ["one", "two"] {
            let directory = try it.volume.directory(it.mkdir(name))
            for number in 0..<size {
                _ = try directory.createFile(BackingName.known(Array("foreign \(number)".utf8)), mode: 0o600)
            }
        }
    }

    // MARK: work

    private static func check(_ it: TestVolume) throws { try check(it, repairs: false) }

    private static func check(_ it: TestVolume, repairs: Bool) throws {
        _ = try CheckOutcome.of(it, it.directory, threads: 1) { $0.repairs = repairs }
    }

    /// Lists and looks up everything, as `ls -R` does.
    private static func walk(_ it: TestVolume) throws {
        var waiting = [it.volume.root]
        while let node = waiting.popLast() {
            for name in try it.list(node, step: 1000) {
                let found = try it.volume.lookup(name, in: node).node
                if found.kind == .directory { waiting.append(found) }
            }
        }
    }

    private static func lookUpInTurn(_ it: TestVolume) throws {
        let nodes = [try it.node("one"), try it.node("two")]
        for name in try it.list(nodes[0], step: 1000) {
            for node in nodes { _ = try it.volume.lookup(name, in: node) }
        }
    }

    private static func lookUpMissing(_ it: TestVolume) throws {
        let nodes = [try it.node("one"), try it.node("two")]
        for name in try it.list(nodes[0], step: 1000) {
            for node in nodes {
                #expect(throws: VolumeError.noEntry) { try it.volume.lookup(name + [UInt8(ascii: "x")], in: node) }
            }
        }
    }
}
