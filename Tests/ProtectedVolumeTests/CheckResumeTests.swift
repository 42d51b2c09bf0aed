// Checks that are interrupted and continued report together what one check reports.

import BackingStore
import HostSystem
import KeyFiles
import Keybag
@testable import MemoryStore
import Testing
import VolumeFormat

@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct CheckResumeTests {
    private struct Outcome {
        let summary: CheckSummary
        let lines: [String]
        let start: Result<Int64, CheckRestart>?
    }

    private static func check(
        _ it: TestVolume, threads: Int = 3, _ change: (inout CheckOptions) -> Void = { _ in }
    ) throws -> Outcome {
        let ring = try it.keys.ring()
        try it.keys.unlock(ring)
        let lines = Lock<[String]>([])
        let start = Lock<Result<Int64, CheckRestart>?>(nil)
        var options = CheckOptions()
        options.mends = false
        options.threads = threads
        options.begins = { found in start.withLock { $0 = found } }
        change(&options)
        let states = StateFileStore(directory: it.states.root, volumeID: ring.volumeID)
        let summary = try Check.run(
            directory: it.directory.reopen(), keys: ring, states: states, options: options
        ) { finding in
            let path = String(decoding: finding.path, as: UTF8.self)
            lines.withLock { $0.append("\(finding.severity) \(finding.kind) \(finding.page ?? 0) \(path)") }
        }
        return Outcome(summary: summary, lines: lines.withLock { $0 }, start: start.withLock { $0 })
    }

    private static func records(_ it: TestVolume) throws -> [String] {
        try it.states.root.entries()
            .map { String(decoding: Array($0.name.bytes), as: UTF8.self) }
            .filter { $0.hasSuffix(".check") }
    }

    /// Goes on until it is asked for the `limit`th time.
    private static func asking(_ limit: Int) -> @Sendable () -> Bool {
        let asked = Lock(0)
        return {
            asked.withLock { asked in
                asked += 1
                return asked < limit
            }
        }
    }

    /// Directories with files of several pages, some damaged, and a file that several workers read.
    private static func filled() throws -> TestVolume {
        let it = try TestVolume()
        for directory in ["a", "b", "c"] {
            try it.mkdir(directory)
            try it.mkdir("\(directory)/sub")
            for index in 0..<12 { try it.write("\(directory)/sub/\(index)", String(repeating: "text ", count: 4000)) }
        }
        try it.write("b/long", String(repeating: "0123456789abcdef", count: 10 << 16))
        _ = try it.volume.link(it.node("c/sub/1"), Array("hard link".utf8), in: it.volume.root)
        try it.volume.close()
        for path in ["a/sub/3", "b/sub/7", "b/long", "c/sub/11"] {
            let (directory, entry) = try it.backing(path)
            let file = try directory.openFile(entry, .readWrite)
            for page in [1, 3] + (path == "b/long" ? [1023, 1024, 1500, 2047, 2048, 2500] : []) {
                try file.write([UInt8](repeating: 7, count: 3).span, at: UInt64(page * 4096 + 200))
            }
        }
        return it
    }

    /// The check asks now and then whether to go on. It is interrupted at each of these questions, then continued.
    @Test(arguments: [1, 4]) func interruptedAtEveryPlace(threads: Int) throws {
        let it = try Self.filled()
        let whole = try Self.check(it, threads: threads)
        #expect(whole.lines.count == 3 * 2 + 8)
        var last = 0
        for limit in 1... {
            let first = try Self.check(it, threads: threads) { options in
                options.mayGoOn = Self.asking(limit)
            }
            guard first.summary.isInterrupted else { break }
            #expect(first.summary.unrecorded == nil)
            #expect(try Self.records(it).count == 1)
            #expect(first.lines == Array(whole.lines.prefix(first.lines.count)) || threads > 1)
            let second = try Self.check(it, threads: threads) { $0.resumes = true }
            #expect(second.lines == whole.lines, "interrupted at \(limit)")
            #expect(second.summary.errors == whole.summary.errors)
            #expect(second.summary.bytes + second.summary.bytesReadBefore == whole.summary.bytes)
            #expect(second.summary.files == whole.summary.files)
            #expect(try Self.records(it).isEmpty)
            #expect((try? second.start?.get()) != nil, "\(String(describing: second.start))")
            if threads == 1 { #expect(second.summary.filesReadBefore >= last) }
            last = second.summary.filesReadBefore
        }
        // Four workers have begun everything in this small tree when one of them is stopped, and the record is before all of it.
        if threads == 1 { #expect(last > 15) }
    }

    /// A run that continues is interrupted, too, again and again.
    @Test func interruptedManyTimes() throws {
        let it = try Self.filled()
        let whole = try Self.check(it)
        var limit = 1
        var runs = 0
        while true {
            runs += 1
            let most = limit
            let outcome = try Self.check(it, threads: 2) { options in
                options.resumes = true
                options.mayGoOn = Self.asking(most)
            }
            limit += 3
            guard !outcome.summary.isInterrupted else { continue }
            #expect(outcome.lines == whole.lines)
            #expect(outcome.summary.filesReadBefore > 0)
            break
        }
        #expect(runs > 5)
    }

    /// Killed at any moment: the record is one that was written before.
    @Test func killedAtAnyRecord() throws {
        let it = try Self.filled()
        let whole = try Self.check(it)
        let name = BackingName.known(Array("\(try it.keys.ring().volumeID).check".utf8))
        let kept = Lock<[[UInt8]]>([])
        _ = try Self.check(it, threads: 2) { options in
            options.recordInterval = 0
            options.mayGoOn = {
                var bytes = [UInt8](repeating: 0, count: 4096)
                var raw = bytes.mutableSpan
                if let count = try? it.states.root.openFile(name, .readOnly).read(into: &raw, at: 0) {
                    kept.withLock { all in
                        let one = Array(bytes.prefix(count))
                        if all.last != one { all.append(one) }
                    }
                }
                return true
            }
        }
        let records = kept.withLock { $0 }
        #expect(!records.isEmpty)
        for bytes in records {
            try it.states.root.createFile(name, mode: 0o600).write(bytes.span, at: 0)
            let outcome = try Self.check(it) { $0.resumes = true }
            #expect(outcome.lines == whole.lines)
            #expect((try? outcome.start?.get()) != nil)
        }
    }

    /// Many damaged blocks of a long file: the first 64, whatever the number of workers.
    @Test func theFirstBlocksAreReported() throws {
        let it = try TestVolume()
        try it.write("long", String(repeating: "0123456789abcdef", count: 24 << 16))
        try it.volume.close()
        let (directory, entry) = try it.backing("long")
        let file = try directory.openFile(entry, .readWrite)
        for page in stride(from: 500, to: 6000, by: 37) {
            try file.write([UInt8](repeating: 7, count: 3).span, at: UInt64(page * 4096 + 200))
        }
        let expected = stride(from: 500, to: 6000, by: 37).prefix(64).map { "error block \($0) long" }
        for threads in [1, 2, 5] {
            let outcome = try Self.check(it, threads: threads)
            #expect(outcome.lines == Array(expected))
        }
    }

    /// The order of the walk is not that of the paths' bytes: `-` comes before `/`.
    @Test func placesInTheOrderOfTheWalk() {
        let order = ["", "a", "a/b", "a/b/c", "a/c", "a-", "a-/b", "b"].map { Array($0.utf8) }
        for (index, one) in order.enumerated() {
            for (other, two) in order.enumerated() { #expect(WalkPlace.precedes(one, two) == (index < other)) }
        }
        let behind = WalkPlace.behind(Array("a".utf8)).path
        #expect(order.map { WalkPlace.precedes($0, behind) } == [true, true, true, true, true, false, false, false])
        #expect(order.allSatisfy { WalkPlace.precedes($0, WalkPlace.end.path) })
    }

    @Test func recordsAreWhole() throws {
        let terms = CheckTerms(options: 3, keys: 2, store: 77, state: 99)
        var record = CheckRecord(try TestKeys.shared.get().bag.volumeID, terms, started: 1_700_000_000)
        record.position = .behind(Array("a/b".utf8))
        record.findings = [1, .max, 12345]
        let bytes = record.serialized()
        #expect(CheckRecord(parsing: bytes.span) == record)
        for index in bytes.indices {
            var other = bytes
            other[index] ^= 4
            #expect(CheckRecord(parsing: other.span) == nil)
            #expect(CheckRecord(parsing: bytes.span.extracting(0..<index)) == nil)
        }
        #expect(CheckRecord(parsing: (bytes + [0]).span) == nil)
    }
}
