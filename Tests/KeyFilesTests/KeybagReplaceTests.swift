// Tests the replacement of the keybag: after any failure one that opens exists, and after success the old one is
// destroyed.

import Keybag
import HostSystem
import Testing
import VolumeFormat

@testable import BackingStore
@testable import MemoryStore
@testable import KeyFiles

/// The keybag files of a volume when a command has verified one of them.
private enum Scene: CaseIterable {
    /// Only the current keybag.
    case plain
    /// A keybag from before the last change, as former versions and a crash at the end leave it.
    case leftover
    /// The keybag from before the last change is a second name of the current one: a crash before the rename.
    case sameFile
    /// A temporary keybag of a change that was cut off.
    case temporary
    /// The previous keybag was verified; the current one is missing, damaged, another whole one, or the same file.
    case missing, damaged, other, otherName

    var isPrevious: Bool {
        switch self {
        case .plain, .leftover, .sameFile, .temporary: false
        case .missing, .damaged, .other, .otherName: true
        }
    }
}

/// Keybags are plain bytes here. A complete one counts as one that opens.
private enum Bytes {
    static func bag(_ seed: UInt8) -> [UInt8] { (0..<5000).map { UInt8(truncatingIfNeeded: $0 &* 31) ^ seed } }
    static let verified = bag(1)
    static let next = bag(2)
    static let older = bag(3)
    static let other = bag(4)
    static let damaged = Array(bag(5).prefix(100))
}

extension MemoryStore {
    fileprivate func put(_ name: EntryName, _ bytes: [UInt8]) throws(Errno) {
        try root.createFile(name, mode: 0o600).write(bytes.span, at: 0)
    }

    fileprivate func bytes(of name: EntryName) -> [UInt8]? {
        guard let file = try? root.openFile(name, .readOnly) else { return nil }
        return try? KeybagFile.bytes(of: file)
    }

    /// Whether any object, without a name too, still begins with these bytes.
    fileprivate func holds(_ bytes: [UInt8]) -> Bool {
        state.withLock { state in
            state.live.objects.values.contains { $0.pages[0]?.starts(with: bytes.prefix(64)) ?? false }
        }
    }

    fileprivate static func make(_ scene: Scene, hasLinks: Bool) throws -> MemoryStore {
        let store = MemoryStore()
        let (current, previous) = (BackingName.keybag, KeybagFile.previous)
        switch scene {
        case .plain, .leftover, .sameFile, .temporary: try store.put(current, Bytes.verified)
        case .missing, .otherName: break
        case .damaged: try store.put(current, Bytes.damaged)
        case .other: try store.put(current, Bytes.other)
        }
        switch scene {
        case .plain: break
        case .leftover: try store.put(previous, Bytes.older)
        case .temporary: try store.put(KeybagFile.temporary, Bytes.other)
        case .sameFile: try store.root.link(current, to: store.root, previous)
        case .missing, .damaged, .other: try store.put(previous, Bytes.verified)
        case .otherName:
            try store.put(previous, Bytes.verified)
            try store.root.link(previous, to: store.root, current)
        }
        store.makeDurable()
        if !hasLinks { store.inject(Fault(calls: [.link], countdown: 1, error: .EPERM, lasts: true)) }
        return store
    }
}

@Suite struct KeybagReplaceTests {
    private let previous = KeybagFile.previous
    private let temporary = KeybagFile.temporary

    /// Replaces the keybag that `scene` says was verified.
    private func replace(_ store: MemoryStore, _ scene: Scene) throws(Errno) -> Errno? {
        try KeybagFile.replace(.init(Bytes.verified, isPrevious: scene.isPrevious), with: Bytes.next, in: store.root)
    }

    /// Whether a replacement runs to its end.
    private func isReplaced(_ store: MemoryStore, _ scene: Scene) -> Bool {
        do throws(Errno) { return try replace(store, scene) == nil } catch { return false }
    }

    /// Whether the current keybag or the one before it is one that opens.
    private func hasOneThatOpens(_ store: MemoryStore) -> Bool {
        let found = [store.bytes(of: BackingName.keybag), store.bytes(of: previous)]
        return found.contains(Bytes.verified) || found.contains(Bytes.next)
    }

    private func each(_ body: (Scene, Bool) throws -> Void) rethrows {
        for scene in Scene.allCases { for hasLinks in [true, false] { try body(scene, hasLinks) } }
    }

    @Test func theOldOneIsDestroyed() throws {
        try each { scene, hasLinks in
            let store = try MemoryStore.make(scene, hasLinks: hasLinks)
            #expect(try replace(store, scene) == nil)
            store.clearFaults()
            #expect(try store.root.entries().map(\.name) == [BackingName.keybag], "\(scene)")
            #expect(store.bytes(of: BackingName.keybag) == Bytes.next)
            // Nor do blocks that are free now hold what opened before.
            for bytes in [Bytes.verified, Bytes.older, Bytes.damaged] {
                #expect(!store.holds(bytes), "\(scene), links: \(hasLinks)")
            }
            if scene == .other || scene == .temporary { #expect(!store.holds(Bytes.other)) }
        }
    }

    @Test func anyCallMayFail() throws {
        var count = 0
        try each { scene, hasLinks in
            let whole = try MemoryStore.make(scene, hasLinks: hasLinks)
            whole.clearRecords()
            #expect(try replace(whole, scene) == nil)
            for number in 1...whole.records.count {
                let store = try MemoryStore.make(scene, hasLinks: hasLinks)
                let before = store.bytes(of: BackingName.keybag)
                store.inject(MemoryStore.Fault(calls: nil, countdown: number, error: .EIO))
                var left: Errno?
                var isDone = false
                do throws(Errno) {
                    left = try replace(store, scene)
                    isDone = true
                } catch {}
                store.clearFaults()
                count += 1
                let place = "\(scene), links: \(hasLinks), call \(number)"
                let now = store.bytes(of: BackingName.keybag)
                if isDone {
                    #expect(now == Bytes.next, "\(place)")
                    // Where the last sync fails it is gone, and nobody knows for how long.
                    #expect(left != nil || !KeybagFile.hasPrevious(in: store.root), "\(place)")
                } else if scene.isPrevious {
                    #expect(store.bytes(of: previous) == Bytes.verified, "\(place)")
                    #expect(now == before || now == nil, "\(place)")
                } else {
                    #expect(now == Bytes.verified, "\(place)")
                }
                #expect(store.bytes(of: temporary) == nil || scene == .temporary && !isDone, "\(place)")
            }
        }
        print("failing calls in a replacement of the keybag: \(count)")
    }

    /// The rename is done, but a network has lost the reply.
    @Test func theReplyToTheRenameIsLost() throws {
        try each { scene, hasLinks in
            let store = try MemoryStore.make(scene, hasLinks: hasLinks)
            store.inject(MemoryStore.Fault(calls: [.rename], countdown: 1, error: .EIO, bytes: 0))
            #expect(try replace(store, scene) == nil, "\(scene)")
            #expect(try store.root.entries().map(\.name) == [BackingName.keybag], "\(scene)")
            #expect(store.bytes(of: BackingName.keybag) == Bytes.next)
        }
    }

    @Test func thePowerMayFailAnywhere() throws {
        var states = 0
        try each { scene, hasLinks in
            for cut in 0..<100 {
                let store = try MemoryStore.make(scene, hasLinks: hasLinks)
                store.cutPower(after: cut)
                let isDone = isReplaced(store, scene)
                store.clearFaults()
                for crashed in store.crashes(atMost: 60, seed: UInt64(cut)) {
                    states += 1
                    let place = "\(scene), links: \(hasLinks), cut \(cut)"
                    #expect(hasOneThatOpens(crashed), "\(place)")
                    if isDone { #expect(crashed.bytes(of: BackingName.keybag) == Bytes.next, "\(place)") }
                    try finish(crashed, place)
                }
                if isDone { return }
            }
            Issue.record("it never ran to its end")
        }
        print("power cuts in a replacement of the keybag: \(states) states")
    }

    /// After a kill, nothing may be durable yet. A power cut must not restore the file that the next unlock destroys.
    @Test func killedThenUnlockedThenThePowerFails() throws {
        try each { scene, hasLinks in
            for cut in 0..<100 {
                var isDone = false
                for second in 0..<8 {
                    let store = try MemoryStore.make(scene, hasLinks: hasLinks)
                    store.cutPower(after: cut)
                    isDone = isReplaced(store, scene)
                    store.clearFaults()
                    try cutFinish(store, after: second)
                    for crashed in store.crashes(atMost: 30, seed: UInt64(cut)) {
                        #expect(
                            hasOneThatOpens(crashed), "\(scene), links: \(hasLinks), cut \(cut), then \(second)")
                    }
                }
                if isDone { return }
            }
        }
    }

    private func cutFinish(_ store: MemoryStore, after cut: Int) throws {
        guard let now = store.bytes(of: BackingName.keybag), now == Bytes.verified || now == Bytes.next else { return }
        store.cutPower(after: cut)
        try? KeybagFile.destroyLeftovers(keeping: now, in: store.root)
        store.clearFaults()
    }

    /// The work of the next unlock or command after a crash.
    private func finish(_ store: MemoryStore, _ place: String) throws {
        let now = store.bytes(of: BackingName.keybag)
        let isPrevious = now != Bytes.verified && now != Bytes.next
        if !isPrevious, let now {
            try KeybagFile.destroyLeftovers(keeping: now, in: store.root)
            #expect(store.bytes(of: BackingName.keybag) == now, "\(place)")
            #expect(!KeybagFile.hasLeftovers(in: store.root), "\(place)")
        }
        let old = isPrevious ? Bytes.verified : now ?? []
        #expect(
            try KeybagFile.replace(.init(old, isPrevious: isPrevious), with: Bytes.bag(9), in: store.root) == nil)
        #expect(try store.root.entries().map(\.name) == [BackingName.keybag], "\(place)")
    }

    @Test func aFileOfAnotherProgramIsNotOverwritten() throws {
        let other = BackingName.known(Array("letter".utf8))
        let store = try MemoryStore.make(.plain, hasLinks: true)
        try store.put(other, Bytes.other)
        try store.root.link(other, to: store.root, previous)
        try KeybagFile.destroyLeftovers(keeping: Bytes.verified, in: store.root)
        #expect(!KeybagFile.hasPrevious(in: store.root))
        try store.root.createSymlink(previous, target: Array(other.bytes))
        #expect(try replace(store, .plain) == nil)
        #expect(store.bytes(of: other) == Bytes.other)
        #expect(Set(try store.root.entries().map(\.name)) == [BackingName.keybag, other])
    }
}
