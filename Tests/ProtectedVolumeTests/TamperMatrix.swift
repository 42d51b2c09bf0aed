// The tamper matrix: every field of every kind of object × every way of changing it, held against reading and fsck.

import KeyFiles
import TestSupport
import BackingStore
@testable import MemoryStore
import Dispatch
import Keybag
import HostSystem
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

/// How stored bytes are changed: the matrix's columns.
enum Tampering: String, CaseIterable, Sendable {
    case flip, zero, cut, extend, swap, foreign, older
}

/// One cell's outcome: what the table says, and whether that is allowed.
struct TamperCell: Sendable {
    var texts: Set<String> = []
    var failures: [String] = []
    var changes = 0

    /// `·`: no such change exists, or it changes no byte.
    var text: String { texts.isEmpty ? "·" : texts.sorted().joined(separator: ", ") }
}

/// A row: a field, and a cell for every column.
struct TamperRow: Sendable {
    let kind: String
    let field: String
    let length: Int
    var cells: [TamperCell]
}

struct TamperMatrix {
    /// The changes that a mount cannot detect. The threat model names each of them.
    enum Uncovered: String, CaseIterable {
        case older = "R"
        case exchanged = "X"
        case removed = "D"
        case holes = "H"
        case size = "S"
        case metadata = "M"
        case trusted = "L"
        case record = "N"
        case crash = "C"
        case late = "W"
    }

    let scene: TamperScene
    /// Every byte is flipped, and not three of each field.
    let isComplete: Bool

    /// The rows of a scene, cells filled by two threads.
    func rows() throws -> [TamperRow] {
        var rows: [TamperRow] = []
        var work: [(row: Int, kind: TamperKind, field: Int)] = []
        for kind in scene.kinds {
            let bytes = try place(kind.place, scene.places).read(scene.now.root)
            let fields = kind.allFields(bytes)
            for (index, field) in fields.enumerated() {
                work.append((rows.count, kind, index))
                rows.append(
                    TamperRow(
                        kind: kind.name, field: field.name, length: field.range.count,
                        cells: Array(repeating: TamperCell(), count: Tampering.allCases.count)))
            }
        }
        let results = Lock(rows)
        let columns = Tampering.allCases.count
        let items = work
        DispatchQueue.concurrentPerform(iterations: items.count * columns) { number in
            let (row, kind, field) = items[number / columns]
            let tampering = Tampering.allCases[number % columns]
            let cell: TamperCell
            do {
                cell = try self.cell(kind, field, tampering)
            } catch {
                cell = TamperCell(texts: ["?"], failures: ["\(kind.name), \(field), \(tampering): \(error)"])
            }
            results.withLock { $0[row].cells[number % columns] = cell }
        }
        return results.withLock { $0 }
    }

    private func place(_ name: String, _ places: [String: TamperPlace]) throws -> TamperPlace {
        try #require(places[name], "\(name)")
    }

    private typealias Changes = [(place: TamperPlace, bytes: [UInt8])]

    private func cell(_ kind: TamperKind, _ field: Int, _ tampering: Tampering) throws -> TamperCell {
        var cell = TamperCell()
        let own = try place(kind.place, scene.places)
        let before = try own.read(scene.now.root)
        let name = kind.allFields(before)[field].name
        for changes in try variants(kind, field, tampering, own, before) {
            if changes.count == 1, changes[0].bytes == before { continue }
            let store = scene.now.crash(index: 0)
            guard try TamperPlace.write(changes, store.root) else { continue }
            cell.changes += 1
            let text = try judge(store, kind, name, tampering)
            if text.contains("?") { cell.failures.append("\(kind.name), \(name), \(tampering): \(text)") }
            cell.texts.insert(text)
        }
        return cell
    }

    // MARK: what is changed

    private func variants(
        _ kind: TamperKind, _ field: Int, _ tampering: Tampering, _ own: TamperPlace, _ bytes: [UInt8]
    ) throws -> [Changes] {
        let range = kind.allFields(bytes)[field].range
        func put(_ new: [UInt8]) -> Changes { [(own, new)] }
        func with(_ middle: some Collection<UInt8>) -> [UInt8] {
            Array(bytes[..<range.lowerBound]) + middle + bytes[range.upperBound...]
        }
        switch tampering {
        case .flip:
            guard kind.fields(bytes).count > field, !range.isEmpty else { return [] }
            let all = Array(range)
            let chosen = isComplete ? all : Array(Set([all[0], all[all.count / 2], all[all.count - 1]]))
            return chosen.map { index in
                var new = bytes
                new[index] ^= 1 << UInt8(index % 8)
                return put(new)
            }
        case .zero: return [put(with(Array(repeating: 0, count: range.count)))]
        case .cut: return [put(Array(bytes[..<range.lowerBound])), put(with([]))]
        case .extend:
            return [0, 0x55].map { put(bytes[..<range.upperBound] + [$0] + bytes[range.upperBound...]) }
        case .swap:
            let partner = try place(kind.partner, scene.places)
            let other = try partner.read(scene.now.root)
            let there = kind.allFields(other)[field].range
            let mine = put(with(other[there]))
            guard other[there] != bytes[range] else { return [mine] }
            let theirs = other[..<there.lowerBound] + bytes[range] + other[there.upperBound...]
            if own.isName { return [mine + [(partner, Array(theirs))]] }
            // Exchanged, and taken over by one of them.
            return [mine + [(partner, Array(theirs))], mine]
        case .foreign:
            let other = try place(kind.place, scene.foreignPlaces).read(scene.foreign.root)
            return [put(with(other[kind.allFields(other)[field].range]))]
        case .older:
            let other = try place(kind.place, scene.olderPlaces).read(scene.older.root)
            return [put(with(other[kind.allFields(other)[field].range]))]
        }
    }

    // MARK: what comes of it

    private func judge(
        _ store: MemoryStore, _ kind: TamperKind, _ field: String, _ tampering: Tampering
    ) throws -> String {
        var found = try Self.check(scene.keys, store.root, scene.states.crash(index: 0), notes: [.older])
        let isOlder = found.remove(Finding.Kind.older.rawValue) != nil
        let states = scene.states.crash(index: 0)
        let now = try TamperReading(TestVolume(scene.keys, store.root, states))
        let (detected, changes) = now.compare(with: scene.reading)
        let kinds = found.isEmpty ? "" : found.sorted().joined(separator: " ")
        // What cannot be opened has the size that the store says.
        let isSeen = changes.isEmpty || detected && changes.allSatisfy { $0.aspect == "size" }
        guard !isSeen else {
            if detected { return kinds.isEmpty ? "? fsck finds nothing" : kinds }
            if isOlder { return "? what is as before is taken for older" }
            return kinds.isEmpty ? "right" : "right (\(kinds))"
        }
        guard let gap = uncovered(kind, tampering, changes, now, found) else {
            return "? \(changes.map { "\($0.key): \($0.value ?? "gone")" })"
        }
        guard gap == .older, isOlder else { return "**\(gap.rawValue)**" + (kinds.isEmpty ? "" : " (\(kinds))") }
        guard try isRefused(changes, store) else { return "? -o fresh opens what is older" }
        return "**\(gap.rawValue)** (" + (kinds.isEmpty ? "" : "\(kinds) ") + "\(Finding.Kind.older.rawValue))"
    }

    /// Whether `-o fresh` shows none of the changed contents.
    private func isRefused(_ changes: [TamperReading.Change], _ store: MemoryStore) throws -> Bool {
        var options = VolumeOptions()
        options.refusesOlder = true
        let states = scene.states.crash(index: 0)
        let fresh = try TamperReading(TestVolume(scene.keys, store.root, states, options: options))
        let others = fresh.compare(with: scene.reading)
        return others.detected && others.changes.allSatisfy { $0.aspect != "content" }
    }

    /// The kinds of findings that are errors or crash damage, and of `notes`.
    static func check(
        _ keys: TestKeys, _ root: BackingDirectory, _ states: MemoryStore, notes: Set<Finding.Kind> = []
    ) throws -> Set<String> {
        let ring = try keys.ring()
        try keys.unlock(ring)
        let kinds = Lock<Set<String>>([])
        let store = StateFileStore(directory: states.root, volumeID: ring.volumeID)
        var options = CheckOptions()
        options.mends = false
        options.threads = 1
        _ = try Check.run(directory: root.reopen(), keys: ring, states: store, options: options) { finding in
            guard finding.severity != .note || notes.contains(finding.kind) else { return }
            kinds.withLock { _ = $0.insert(finding.kind.rawValue) }
        }
        return kinds.withLock { $0 }
    }

    /// Which of the things that nobody can notice this was; nil: none of them, which is a bug.
    private func uncovered(
        _ kind: TamperKind, _ tampering: Tampering, _ changes: [TamperReading.Change], _ now: TamperReading,
        _ found: Set<String>
    ) -> Uncovered? {
        if changes.allSatisfy({ $0.aspect == "size" }) { return .size }
        if found.contains("missing-record"), changes.allSatisfy(\.isClass) { return .record }
        let isRename = kind.name.hasPrefix("Name of an entry") || kind.name == "Long name's entry"
        let contents = changes.filter { $0.aspect == "content" }
        if found.contains("crash-damage"), kind.name.hasPrefix("After a crash"), !contents.isEmpty,
            contents.allSatisfy({ isMixed($0.path, now, with: nil) })
        {
            return .crash
        }
        switch tampering {
        case .older:
            let isOlder = changes.allSatisfy { change in
                isRename || change.isClass || change.aspect == "size"
                    || change.value == scene.olderReading.values[change.key]
                    || change.aspect == "content" && isMixed(change.path, now, with: scene.olderReading)
            }
            return isOlder ? .older : nil
        case .swap:
            let isFromElsewhere = changes.allSatisfy { change in
                guard let value = change.value else { return isRename }
                return scene.reading.values.contains { key, old in
                    old == value && TamperReading.Change(key: key, value: nil).aspect == change.aspect
                }
            }
            return isFromElsewhere ? .exchanged : nil
        case .cut:
            return changes.allSatisfy { $0.value == nil } ? .removed : nil
        case .zero where kind.name.hasPrefix("File with holes"):
            return changes.allSatisfy { $0.aspect == "content" && isMixed($0.path, now, with: nil) } ? .holes : nil
        default: return nil
        }
    }

    /// Whether each byte of a file is the one before, or that of another reading, or, without one, zero or cut off.
    private func isMixed(_ path: String, _ now: TamperReading, with other: TamperReading?) -> Bool {
        guard let new = now.contents[path], let old = scene.reading.contents[path] else { return false }
        let others = other?.contents[path] ?? []
        return new.indices.allSatisfy { index in
            index < old.count && new[index] == old[index]
                || (other == nil ? new[index] == 0 : index < others.count && new[index] == others[index])
        }
    }
}

extension TamperKind {
    /// The fields, then the row for all of them together.
    func allFields(_ bytes: [UInt8]) -> [LayoutField] {
        fields(bytes) + (whole.map { [LayoutField("*all of it*", $0(bytes))] } ?? [])
    }
}
