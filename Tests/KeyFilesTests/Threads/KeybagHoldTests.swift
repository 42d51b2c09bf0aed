// Tests that changes of one keybag keep apart that do not see each other's lock, as on two machines.

import BackingStore
import HostSystem
import TestSupport
import Testing

@testable import KeyFiles

@Suite struct KeybagHoldTests {
    private let holder: TemporaryDirectory
    private let root: BackingDirectory
    private let bag: [UInt8] = Array(repeating: 1, count: 5000)

    init() throws {
        holder = try TemporaryDirectory()
        root = try HostDirectory.open(path: holder.path)
        try KeybagFile.create(bag, in: root)
    }

    private func bytes(_ name: EntryName) -> [UInt8]? {
        guard let file = try? root.openFile(name, .readOnly) else { return nil }
        return try? KeybagFile.bytes(of: file)
    }

    @Test func oneAtATime() throws {
        do {
            let hold = try KeybagFile.hold(in: root, waits: false)
            defer { withExtendedLifetime(hold) {} }
            #expect(throws: Errno.EBUSY) { _ = try KeybagFile.hold(in: root, waits: false) }
        }
        _ = try KeybagFile.hold(in: root, waits: false)
    }

    /// A change that is about to rename its keybag: what it has made is not taken for a leftover.
    @Test func aChangeInProgressIsLeftAlone() throws {
        let next: [UInt8] = Array(repeating: 2, count: 5000)
        do {
            var hold = try KeybagFile.hold(in: root, waits: true)
            defer { withExtendedLifetime(hold) {} }
            hold.add(try KeybagFile.writeTemporary(next, in: root))
            #expect(throws: Errno.EBUSY) { try KeybagFile.destroyLeftovers(keeping: bag, in: root) }
            #expect(bytes(KeybagFile.temporary) == next)
            try root.rename(KeybagFile.temporary, to: root, KeybagFile.current)
            // The new one is held from its first moment.
            #expect(throws: Errno.EBUSY) { _ = try KeybagFile.hold(in: root, waits: false) }
        }
        #expect(bytes(KeybagFile.current) == next)
        #expect(throws: Errno.EBUSY) { _ = try KeybagFile.replace(.init(bag, isPrevious: false), with: bag, in: root) }
        #expect(try KeybagFile.replace(.init(next, isPrevious: false), with: bag, in: root) == nil)
        #expect(bytes(KeybagFile.current) == bag)
        #expect(!KeybagFile.hasLeftovers(in: root))
    }

    /// Two that change it again and again: no change is lost without an error, and there is always a whole keybag.
    @Test func manyAtOnce() throws {
        let path = holder.path
        let done = Lock(0)
        let threads = (0..<2).map { number in
            BackgroundThread(name: "changer") {
                guard let root = try? HostDirectory.open(path: path) else { return }
                for round in 0..<60 {
                    guard let now = try? KeybagFile.read(in: root) else { continue }
                    let next = [UInt8](repeating: UInt8(2 + number * 100 + round), count: 5000)
                    _ = try? KeybagFile.destroyLeftovers(keeping: now, in: root)
                    do throws(Errno) {
                        _ = try KeybagFile.replace(.init(now, isPrevious: false), with: next, in: root)
                        done.withLock { $0 += 1 }
                    } catch { #expect(error == .EBUSY) }
                }
            }
        }
        for _ in 0..<200 {
            let now = try KeybagFile.read(in: root)
            #expect(now.count == 5000 && Set(now).count == 1)
        }
        for thread in threads { thread?.join() }
        let last = try KeybagFile.read(in: root)
        #expect(last.count == 5000 && Set(last).count == 1)
        #expect(done.withLock { $0 } >= 2)
        #expect(!KeybagFile.hasLeftovers(in: root))
    }
}
