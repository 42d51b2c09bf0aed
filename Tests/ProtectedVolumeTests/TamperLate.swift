// The tamper matrix of late files: the records of a changed file that an unlock applies, and its reports.

import KeyFiles
import TestSupport
import BackingStore
@testable import MemoryStore
import Keybag
import HostSystem
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

/// Two late files, of which each owes two files three writes; the same later, and another volume's.
final class TamperLate: Sendable {
    /// A volume's store and state file at one time, and the late file that is changed in it.
    struct Version: Sendable {
        let store: MemoryStore
        let states: MemoryStore
        /// The number of the late file, and of another one.
        let number: UInt64
        let partner: UInt64
        /// The late file, and what it was before its last record.
        let bytes: [UInt8]
        let older: [UInt8]
        /// The state file, and what it was before.
        let state: [UInt8]
        let olderState: [UInt8]
        /// The contents of `f` and `g` with all records, with all but the last, …, with none.
        let contents: [[String]]
    }

    let keys: TestKeys
    let fresh: Version
    let used: Version
    let foreign: Version

    init() throws {
        (keys, fresh) = try Self.makeInOrder()
        used = try Self.use(fresh, keys)
        foreign = try Self.make(TestKeys())
    }

    // MARK: making

    private static let old = "as it was before: forty bytes of content"
    private static let (first, second, other) = ("the first write!", "the second one!!", "of the other one")
    /// A file with writes at its start.
    private static func file(_ writes: String...) -> String {
        let text = writes.joined()
        return text + old.dropFirst(text.count)
    }
    /// The contents of the two files with three records, with two, with one, with none.
    private static let contents = [
        [file(first, second), file(other)], [file(first), file(other)], [file(first), old], [old, old],
    ]

    /// A volume of which the root's late files come before all others. A check goes by names and judges a late file where
    /// it meets it: it is stale if its files were checked before. One name in 64 begins with `-`, which is before `.`.
    private static func makeInOrder() throws -> (TestKeys, Version) {
        while true {
            let keys = try TestKeys()
            let version = try make(keys)
            let entries = try version.store.root.entries()
            if !entries.contains(where: { $0.name.bytes.first == UInt8(ascii: "-") }) { return (keys, version) }
        }
    }

    private static func make(_ keys: TestKeys) throws -> Version {
        let (store, states) = (MemoryStore(), MemoryStore())
        let ring = try keys.ring()
        try NewVolume.writeRootRecord(in: store.root, keys: ring.metadata)
        try StateFileStore(directory: states.root, volumeID: ring.volumeID).update { state in
            state = StateFile(pinning: keys.bag, toleratesEverything: false)
        }
        let first = try TestVolume(keys, store.root, states)
        for name in ["f", "g", "f2", "g2"] {
            try first.write(name, old)
            try first.setClass(name, "A")
        }
        let before = try bytes(of: states)
        let (older, number) = try lockAndWrite(first, store, "f", "g", besides: [])
        let (_, partner) = try lockAndWrite(TestVolume(keys, store.root, states), store, "f2", "g2", besides: [number])
        return Version(
            store: frozen(store), states: frozen(states), number: number, partner: partner,
            bytes: try bytes(store, number), older: older, state: try bytes(of: states), olderState: before,
            contents: contents)
    }

    /// Three writes after a lock; the late file before the last, and its number.
    private static func lockAndWrite(
        _ it: TestVolume, _ store: MemoryStore, _ one: String, _ two: String, besides known: [UInt64]
    ) throws -> ([UInt8], UInt64) {
        let node = try it.node(one)
        let contents = try (it.volume.open(node, writable: true), it.volume.open(it.node(two), writable: true))
        try it.volume.synchronize(node, dataOnly: false)
        it.lock()
        func write(_ text: String, at offset: UInt64, _ content: FileContent) throws {
            let bytes = Array(text.utf8)
            try it.volume.writeLate(bytes.span, at: offset, to: content)
        }
        try write(first, at: 0, contents.0)
        try write(other, at: 0, contents.1)
        try it.volume.synchronize(node, dataOnly: true)
        let number = try #require(LateFiles.numbers(in: store.root).first { !known.contains($0) })
        let older = try bytes(store, number)
        try write(second, at: 16, contents.0)
        try it.volume.synchronize(node, dataOnly: true)
        try it.volume.close()
        return (older, number)
    }

    /// The same when `f` has its records, and was written since.
    private static func use(_ version: Version, _ keys: TestKeys) throws -> Version {
        let (store, states) = (version.store.crash(index: 0), version.states.crash(index: 0))
        let it = try TestVolume(keys, store.root, states)
        try it.put("f", Array("newer".utf8), at: 0)
        try it.volume.close()
        let newer = "newer" + file(first, second).dropFirst(5)
        return Version(
            store: frozen(store), states: frozen(states), number: version.number, partner: version.partner,
            bytes: try bytes(store, version.number), older: version.bytes, state: try bytes(of: states),
            olderState: version.state, contents: [[newer, file(other)], [newer, old]])
    }

    private static func frozen(_ store: MemoryStore) -> MemoryStore {
        store.makeDurable()
        return store.crash(index: 0)
    }

    private static func bytes(_ store: MemoryStore, _ number: UInt64) throws -> [UInt8] {
        try TamperPlace.file([], name(number)).read(store.root)
    }

    private static func stateName(_ states: MemoryStore) throws -> EntryName {
        try #require(states.root.entries().first { Array($0.name.bytes.suffix(6)) == Array(".state".utf8) }).name
    }

    private static func bytes(of states: MemoryStore) throws -> [UInt8] {
        try TamperPlace.file([], stateName(states)).read(states.root)
    }

    private static func name(_ number: UInt64) throws -> EntryName {
        try #require(EntryName(LateFileName.bytes(of: number)))
    }

    // MARK: the rows

    func rows(isComplete: Bool) throws -> [TamperRow] {
        var rows = fileRows("Late file", fresh, isComplete, records: [0, 1, 2])
        rows += fileRows("Late file with a done record", used, isComplete, records: [0, 3])
        let whole = LayoutField("*all of it*", 0..<used.bytes.count)
        let kind = "Late file with a done record, where the state file is missing"
        rows.append(row(kind, whole, used, isComplete, hasState: false))
        rows += try nameRows(isComplete)
        for (kind, version) in [("Late file", fresh), ("Late file with a done record", used)] {
            rows += try stateRows("State file, the open lock of: \(kind.lowercased())", version, isComplete)
        }
        return rows
    }

    /// The header's fields, those of some records, and the file as a whole.
    private func fileRows(_ kind: String, _ version: Version, _ isComplete: Bool, records: [Int]) -> [TamperRow] {
        let found = Self.records(in: version.bytes)
        let names = ["first record", "second record", "last record of data", "done record"]
        var rows = LateFileHeader.fields.map { row("\(kind), header", $0, version, isComplete) }
        for index in records where index < found.count {
            let all = LayoutField("*all of it*", found[index].range)
            for field in found[index].fields + [all] {
                rows.append(row("\(kind), \(names[index])", field, version, isComplete))
            }
        }
        let whole = LayoutField("*all of it*", 0..<version.bytes.count)
        return rows + [row("\(kind), the file", whole, version, isComplete)]
    }

    private static func records(in bytes: [UInt8]) -> [(range: Range<Int>, fields: [LayoutField])] {
        var result: [(range: Range<Int>, fields: [LayoutField])] = []
        var start = LateFileHeader.length
        while start < bytes.count {
            let rest = Array(bytes[start...])
            guard let header = try? LateRecordHeader(parsing: rest.span) else { break }
            result.append((start..<start + header.recordLength, header.fields.map { $0.moved(by: start) }))
            start += header.recordLength
        }
        return result
    }

    private func row(
        _ kind: String, _ field: LayoutField, _ version: Version, _ isComplete: Bool, hasState: Bool = true
    ) -> TamperRow {
        let (range, bytes) = (field.range, version.bytes)
        let isWhole = range.count == bytes.count
        func counterpart(_ other: [UInt8]) -> [UInt8]? {
            // The same or not, as the clock has it.
            if field.name == "seconds" { return nil }
            if isWhole { return other }
            return range.upperBound <= other.count ? Array(other[range]) : nil
        }
        func judge(_ tampering: String, _ changes: [(UInt64, [UInt8])]) -> String? {
            outcome("\(kind), \(field.name)\(tampering)", version, hasState: hasState) { store, _ in
                for (number, bytes) in changes {
                    _ = try TamperPlace.write([(.file([], Self.name(number)), bytes)], store.root)
                }
            }
        }
        var row = TamperKeybag.row(
            kind, field.name, field, bytes, isComplete, partner: nil, foreign: counterpart(foreign.bytes),
            older: counterpart(version.older)
        ) { judge("", [(version.number, $0)]) }
        // As in the other tables: a bit of all of it is a bit of a field.
        if field.name == "*all of it*" { row.cells[0] = TamperCell() }
        // Exchanged with the other late file's, and copied from there.
        guard let other = try? Self.bytes(version.store, version.partner), let there = counterpart(other),
            there != Array(bytes[range])
        else { return row }
        let mine = Array(bytes[..<range.lowerBound]) + there + bytes[range.upperBound...]
        let theirs =
            isWhole ? bytes : Array(other[..<range.lowerBound]) + bytes[range] + other[range.upperBound...]
        for changes in [[(version.number, mine), (version.partner, theirs)], [(version.number, mine)]] {
            Self.add(judge(", swapped", changes), to: &row, .swap)
        }
        return row
    }

    private static func add(_ text: String?, to row: inout TamperRow, _ tampering: Tampering) {
        guard let column = Tampering.allCases.firstIndex(of: tampering) else { return }
        row.cells[column].changes += 1
        row.cells[column].texts.insert(text ?? "?")
        if text == nil { row.cells[column].failures.append("\(row.kind), \(row.field), \(tampering)") }
    }

    /// The number in the name, and the entry itself.
    private func nameRows(_ isComplete: Bool) throws -> [TamperRow] {
        let kind = "Late file, its name"
        let bytes = LateFileName.bytes(of: fresh.number)
        let field = LayoutField("number", bytes.count - 16..<bytes.count)
        func judge(_ name: String, _ act: (BackingDirectory) throws -> Void) -> String? {
            outcome("\(kind), \(name)", fresh, hasState: true) { store, _ in try act(store.root) }
        }
        let own = try Self.name(fresh.number)
        var number = TamperKeybag.row(
            kind, field.name, field, bytes, isComplete, partner: nil,
            foreign: Array(LateFileName.bytes(of: foreign.number)[field.range]), older: nil
        ) { changed in
            guard let name = EntryName(changed) else { return "·" }
            return judge(field.name) { try $0.rename(own, to: $0, name) }
        }
        let exchanged = judge("number, swapped") { root in
            let (other, waiting) = (try Self.name(fresh.partner), try #require(EntryName("waiting")))
            try root.rename(own, to: root, waiting)
            try root.rename(other, to: root, own)
            try root.rename(waiting, to: root, other)
        }
        Self.add(exchanged, to: &number, .swap)
        var entry = TamperRow(
            kind: kind, field: "the entry", length: 0,
            cells: Array(repeating: TamperCell(), count: Tampering.allCases.count))
        Self.add(judge("removed") { try $0.unlink(own) }, to: &entry, .cut)
        return [number, entry]
    }

    /// The state file is believed, and this is what it brings about.
    private func stateRows(_ kind: String, _ version: Version, _ isComplete: Bool) throws -> [TamperRow] {
        let layout = try StateFileLayout(parsing: version.state.span)
        let older = try StateFileLayout(parsing: version.olderState.span)
        let fields = layout.fields.filter {
            $0.name.hasPrefix("open locks: ") && !$0.name.hasPrefix("open locks: lock 2")
        }
        let name = try Self.stateName(version.states)
        return fields.map { field in
            TamperKeybag.row(
                kind, field.name, field, version.state, isComplete, partner: nil, foreign: nil,
                older: older.fields.first { $0.name == field.name }.map { Array(version.olderState[$0.range]) }
            ) { changed in
                outcome("\(kind), \(field.name)", version, hasState: true) { _, states in
                    let bytes = TamperKeybag.withHash(changed, field)
                    _ = try TamperPlace.write([(.file([], name), bytes)], states.root)
                }
            }
        }
    }

    // MARK: what comes of it

    /// What an unlock reports of the late files, and what `fsck` does; nil, and a failure, where a file holds something
    /// that was not written, or lacks something without a report that is not named in the threat model.
    private func outcome(
        _ what: String, _ version: Version, hasState: Bool, _ act: (MemoryStore, MemoryStore) throws -> Void
    ) -> String? {
        do {
            let store = version.store.crash(index: 0)
            let states = hasState ? version.states.crash(index: 0) : MemoryStore()
            try act(store, states)
            store.makeDurable()
            states.makeDurable()
            guard let it = try? TestVolume(keys, store.crash(index: 0).root, states.crash(index: 0)) else {
                return "refused"
            }
            let notices = it.notices.withLock { $0 }
            let contents = try ["f", "g", "f2", "g2"].map { try it.read($0) }
            let found = try Self.check(keys, store.root, states)
            guard let text = Self.text(version, contents, notices, what) else {
                Issue.record("\(what): \(contents), \(notices)")
                return nil
            }
            return found.isEmpty ? text : "\(text) (\(found.sorted().joined(separator: " ")))"
        } catch {
            Issue.record("\(what): \(error)")
            return nil
        }
    }

    private static let words: [(String, String)] = [
        ("cutOff", "cut-off"), ("missing", "missing"), ("notListed", "not-listed"), ("refused", "refused"),
    ]

    private static func text(
        _ version: Version, _ contents: [String], _ notices: [String], _ what: String
    ) -> String? {
        let told = notices.filter { $0.hasPrefix("late(") }
        guard !told.contains(where: { $0.contains("failed") }) else { return nil }
        let reported = words.filter { word in told.contains { $0.contains(".\(word.0)") } }.map(\.1)
        let (own, others) = (Array(contents[..<2]), Array(contents[2...]))
        guard Self.contents.contains(others) else { return nil }
        let isWhole = own == version.contents[0] && others == Self.contents[0]
        if isWhole { return reported.isEmpty ? "right" : reported.joined(separator: " ") }
        if version.contents.contains(own) {
            return reported.isEmpty ? "**\(TamperMatrix.Uncovered.late.rawValue)**" : reported.joined(separator: " ")
        }
        // Used records count once more where nobody knows that they were used.
        guard own == Self.contents[0], what.contains("state file is missing") else { return nil }
        return "**\(TamperMatrix.Uncovered.older.rawValue)**"
    }

    /// The findings of a check that applies late records: errors, crash damage, and late files that are not applied.
    private static func check(_ keys: TestKeys, _ root: BackingDirectory, _ states: MemoryStore) throws -> Set<String> {
        let ring = try keys.ring()
        try keys.unlock(ring)
        var options = CheckOptions()
        options.threads = 1
        let found = Lock<Set<String>>([])
        let store = StateFileStore(directory: states.root, volumeID: ring.volumeID)
        _ = try Check.run(directory: root.reopen(), keys: ring, states: store, options: options) { finding in
            guard finding.severity != .note || finding.kind == .staleLate else { return }
            found.withLock { _ = $0.insert(finding.kind.rawValue) }
        }
        return found.withLock { $0 }
    }
}
