// What happens to a file's name while it is encrypted anew.

import BackingStore
import Dispatch
import HostSystem
@testable import MemoryStore
import KeyFiles
import TestSupport
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

struct ReencryptionTests {
    /// What changes names in the moment in which the copy takes the file's name waits for it.
    @Test(arguments: ["save", "removal", "move", "link"]) func reencryptionTakesTheNameAtOnce(_ change: String) throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("f", "content")
        try it.write("new", "saved")
        let node = try it.node("f")
        let failures = Self.reencrypting(node, in: it, store) { () throws(VolumeError) in
            try Self.make(change, in: it, node)
        }
        #expect(failures == [])
        switch change {
        case "save":
            #expect(try it.read("f") == "saved")
            #expect(try it.getClass("f") == "complete")
            #expect(try it.list("") == ["f"])
        case "removal": #expect(try it.list("") == ["new"])
        case "move":
            #expect(try it.read("g") == "content")
            #expect(try it.list("") == ["g", "new"])
        default:
            #expect(try it.read("g") == "content")
            #expect(try it.volume.attributes(of: it.node("f")).links == 2)
        }
    }

    /// A change of names that has looked at a name before a copy took it looks again.
    @Test(arguments: [(false, 2), (true, 1)]) func aChangeLooksAgainAfterACopy(_ isSame: Bool, _ wanted: Int) throws {
        let copies = try TestVolume().volume.copies
        var (looks, calls) = (0, 0)
        try copies.retrying { (number) throws(VolumeError) in
            looks += 1
            if looks == 1 { try copies.replacing {} }
            try copies.changing(since: number, isSame: { isSame }, { calls += 1 })
        }
        #expect(looks == wanted)
        #expect(calls == 1)
        // It does not go on for ever.
        guard !isSame else { return }
        #expect(throws: VolumeError.refused(.EBUSY)) {
            try copies.retrying { (number) throws(VolumeError) in
                try copies.replacing {}
                try copies.changing(since: number, isSame: { false }, {})
            }
        }
    }

    /// A change of metadata that comes too late for the copy is refused. The kernel then repeats it on the new inode.
    @Test(arguments: ["mode", "short", "long", "removal"]) func aCopyLosesNoChangeOfMetadata(_ change: String) throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("f", "content")
        let node = try it.node("f")
        try it.volume.setXattr(node, Self.attribute, value: Self.long, mode: .set)
        let refusals = Self.reencrypting(node, in: it, store) { () throws(VolumeError) in
            try Self.change(change, node, it)
        }
        #expect(refusals == ["\(VolumeError.stale)"])
        let now = try it.node("f")
        #expect(now !== node)
        if change != "mode" { #expect(try it.volume.getXattr(now, Self.attribute) == Self.long) }
        try Self.change(change, now, it)
        switch change {
        case "mode": #expect(try it.volume.attributes(of: now).mode & 0o777 == 0o640)
        case "removal": #expect(throws: VolumeError.noAttribute) { try it.volume.getXattr(now, Self.attribute) }
        default: #expect(try it.volume.getXattr(now, Self.attribute).first == 9)
        }
        it.volume.forget(node, count: 1)
        #expect(try it.volume.attributes(of: now).size == 7)
    }

    /// A handle from before still refers to the former inode. Its attributes are not the file's.
    @Test func theFormerInodeDoesNotOwnTheAttributes() throws {
        let it = try TestVolume()
        try it.write("f", "content")
        let node = try it.node("f")
        try it.volume.setXattr(node, Self.attribute, value: Self.long, mode: .set)
        _ = try it.volume.open(node, writable: false)
        #expect(try it.volume.reencrypt(node, to: .complete))
        for change in ["mode", "short", "long", "removal"] {
            #expect(throws: VolumeError.stale) { try Self.change(change, node, it) }
        }
        let now = try it.node("f")
        #expect(try it.volume.getXattr(now, Self.attribute) == Self.long)
        // What the handle can read stays readable, until the file's attributes change.
        #expect(try it.volume.attributes(of: node).links == 0)
        try Self.change("long", now, it)
        #expect(throws: VolumeError.stale) { try it.volume.getXattr(node, Self.attribute) }
        it.volume.release(node, writable: false)
        #expect(throws: VolumeError.stale) { try it.volume.attributes(of: node) }
        it.volume.forget(node, count: 1)
        #expect(try it.volume.getXattr(now, Self.attribute).first == 9)
    }

    /// The store's clock does not tell a change from the one before it. The mount counts its own.
    @Test(arguments: ["mode", "short", "long", "removal"])
    func aCopyNoticesChangesOfTheSameMoment(_ change: String) throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("f", "content")
        let node = try it.node("f")
        try it.volume.setXattr(node, Self.attribute, value: Self.long, mode: .set)
        store.stopClock()
        // The copy has the attributes by then.
        store.beforeSetTimes.withLock { $0 = { _ = try? Self.change(change, node, it) } }
        #expect(throws: VolumeError.refused(.EBUSY)) { try it.volume.reencrypt(node, to: .none) }
        switch change {
        case "mode": #expect(try it.volume.attributes(of: node).mode & 0o777 == 0o640)
        case "removal": #expect(throws: VolumeError.noAttribute) { try it.volume.getXattr(node, Self.attribute) }
        default: #expect(try it.volume.getXattr(node, Self.attribute).first == 9)
        }
        #expect(try it.volume.reencrypt(node, to: .none))
        #expect(try it.read("f") == "content")
    }

    /// A class that a program asks for stays, also if the file has it at that moment only because of a change that then fails.
    @Test func anUndoneChangeTakesNoChosenClassAway() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("f", "content")
        let node = try it.node("f")
        store.stopClock()
        try it.volume.changeClass(of: node, to: .none)
        // The file has got the stronger class by then.
        store.beforeSetTimes.withLock { $0 = { _ = try? it.volume.changeClass(of: node, to: .complete) } }
        #expect(throws: VolumeError.refused(.EBUSY)) { try it.volume.reencrypt(node, to: .complete) }
        #expect(try it.volume.protectionClass(of: node) == .complete)
        try it.volume.changeClass(of: node, to: .none)
        store.fail(.rename, with: .EIO)
        #expect(throws: VolumeError.store(.EIO)) { try it.volume.reencrypt(node, to: .complete) }
        #expect(try it.volume.protectionClass(of: node) == ProtectionClass.none)
    }

    /// A network store may lose the reply to a rename that it has done. The copy is the file then.
    @Test func aLostReplyToTheRename() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("f", "content")
        let node = try it.node("f")
        _ = try it.volume.open(node, writable: false)
        store.inject(.init(calls: [.rename], countdown: 1, error: .EIO, bytes: 0))
        #expect(try it.volume.reencrypt(node, to: .complete))
        let now = try it.node("f")
        #expect(now !== node)
        let content = try it.volume.open(now, writable: true)
        try content.write(Array("later".utf8).span, at: 0, access: .write)
        it.volume.release(now, writable: true)
        it.volume.release(node, writable: false)
        #expect(try it.read("f") == "laternt")
    }

    /// A node that was left because of a change from outside still is the same inode: nothing of it is lost.
    @Test(arguments: ["mode", "short", "long", "removal"])
    func aNodeThatWasLeftIsStillTheFile(_ change: String) throws {
        let it = try TestVolume()
        try it.write("f", "content")
        let node = try it.node("f")
        try it.volume.setXattr(node, Self.attribute, value: Self.long, mode: .set)
        it.volume.leaveIfClosed(node)
        try Self.change(change, node, it)
        let now = try it.node("f")
        #expect(now !== node)
        switch change {
        case "mode": #expect(try it.volume.attributes(of: now).mode & 0o777 == 0o640)
        case "removal": #expect(throws: VolumeError.noAttribute) { try it.volume.getXattr(now, Self.attribute) }
        default: #expect(try it.volume.getXattr(now, Self.attribute).first == 9)
        }
    }

    private static let attribute = Array("user.big".utf8)
    private static let long = [UInt8](repeating: 7, count: 3000)

    private static func change(_ change: String, _ node: Node, _ it: TestVolume) throws(VolumeError) {
        switch change {
        case "mode":
            var mode = AttributeChange()
            mode.mode = 0o640
            _ = try it.volume.setAttributes(of: node, mode)
        case "short": try it.volume.setXattr(node, attribute, value: [9], mode: .set)
        case "long":
            try it.volume.setXattr(node, attribute, value: [UInt8](repeating: 9, count: 3000), mode: .set)
        default: try it.volume.removeXattr(node, attribute)
        }
    }

    /// Gives a file a new key in one thread, and runs `body` in another one in the moment in which the copy takes the name.
    /// - Returns: what failed.
    private static func reencrypting(
        _ node: Node, in it: TestVolume, _ store: MemoryStore,
        _ body: @escaping @Sendable () throws(VolumeError) -> Void
    ) -> [String] {
        let (began, ended) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let failures = Lock<[VolumeError]>([])
        store.beforeRename.withLock {
            $0 = {
                began.signal()
                // If nothing keeps the other thread waiting, it is done by then.
                _ = ended.wait(timeout: .now() + 0.1)
            }
        }
        inThreads(2) { thread in
            do throws(VolumeError) {
                if thread == 0 {
                    defer { began.signal() }
                    try it.volume.reencrypt(node, to: .complete)
                } else {
                    began.wait()
                    try body()
                    ended.signal()
                }
            } catch { failures.withLock { $0.append(error) } }
        }
        return failures.withLock { $0.map { "\($0)" } }
    }

    private static func make(_ change: String, in it: TestVolume, _ node: Node) throws(VolumeError) {
        let (root, name) = (it.volume.root, Array("f".utf8))
        switch change {
        case "save": try it.volume.rename(Array("new".utf8), in: root, to: name, in: root, mode: .replace)
        case "removal": try it.volume.unlink(name, in: root)
        case "move": try it.volume.rename(name, in: root, to: Array("g".utf8), in: root, mode: .noReplace)
        default:
            do throws(VolumeError) {
                _ = try it.volume.link(node, Array("g".utf8), in: root)
            } catch {
                // As the kernel does: the name is looked up again.
                guard case .refused(.ESTALE) = error else { throw error }
                _ = try it.volume.link(it.node("f"), Array("g".utf8), in: root)
            }
        }
    }
}
