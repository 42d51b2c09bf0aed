// Tests class 7 in a volume: it closes after a lock, its late writes are in their files after the unlock, and names keep it.

import BackingStore
@testable import MemoryStore
import HostSystem
import KeyFiles
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

@Suite struct InactiveTests {
    static let seven = ProtectionClass.completeWhenUserInactive

    /// A file of class 7 that is open, with its volume.
    private struct Scene {
        let store = MemoryStore()
        let it: TestVolume
        let node: Node
        let content: FileContent

        init() throws {
            it = try TestVolume(store.root)
            try it.write("f", "old old old")
            try it.setClass("f", "7")
            node = try it.node("f")
            content = try it.volume.open(node, writable: true)
            try it.volume.synchronize(node, dataOnly: false)
        }

        /// What the mount does when the time has run out.
        func close() -> Bool {
            it.volume.lockUnmounted(InactiveTests.seven)
        }

        func late(_ text: String) throws {
            let bytes = Array(text.utf8)
            try it.volume.writeLate(bytes.span, at: 0, to: content)
        }
    }

    @Test func closesAfterALock() throws {
        let scene = try Scene()
        // Neither an unlocked volume closes it, nor one that is locked a second time.
        #expect(!scene.close())
        scene.it.lock()
        #expect(try scene.it.read("f") == "old old old" && TestVolume.bytes(of: scene.content) == "old old old")
        try scene.it.write("new", "made while locked")
        try scene.it.setClass("new", "7")
        #expect(scene.close() && !scene.close())
        #expect(!scene.content.hasKey)
        for name in ["f", "new"] { #expect(throws: VolumeError.locked(Self.seven)) { try scene.it.read(name) } }
        #expect(throws: VolumeError.locked(Self.seven)) { try TestVolume.bytes(of: scene.content) }
        #expect(try scene.it.getClass("new") == "completeWhenUserInactive")
        try scene.it.unlock()
        #expect(try scene.it.read("f") == "old old old" && scene.it.read("new") == "made while locked")
    }

    /// The kernel's part runs while the class is refused and its pages are still taken.
    @Test func pagesAreTakenWhileItCloses() throws {
        let scene = try Scene()
        scene.it.lock()
        #expect(scene.it.volume.beginLock(Self.seven))
        #expect(throws: VolumeError.locked(Self.seven)) { try scene.it.read("f") }
        let bytes = Array("dirty page".utf8)
        try scene.content.write(bytes.span, at: 0, access: .writeBack)
        #expect(scene.it.volume.finishLock(Self.seven, sweeping: false))
        #expect(!scene.it.volume.finishLock(Self.seven, sweeping: false))
        try scene.it.unlock()
        #expect(try scene.it.read("f") == "dirty paged")
    }

    @Test func aLateWriteIsThereAfterTheUnlock() throws {
        let scene = try Scene()
        scene.it.lock()
        // Open: a page that the kernel writes back is an ordinary write.
        let page = Array("one".utf8)
        try scene.content.write(page.span, at: 0, access: .writeBack)
        #expect(try TestVolume.bytes(of: scene.content) == "one old old")
        #expect(scene.close())
        #expect(throws: VolumeError.locked(Self.seven)) {
            try scene.content.write(page.span, at: 0, access: .writeBack)
        }
        try scene.late("two")
        #expect(scene.it.volume.lateRecordCount == 1)
        try scene.it.volume.persistLateRecords()
        #expect(LateScene.lateFiles(scene.store).count == 1)
        try scene.it.unlock()
        #expect(try TestVolume.bytes(of: scene.content) == "two old old")
        #expect(LateScene.lateFiles(scene.store).isEmpty)
    }

    /// What waits for a file that was not open at the unlock cannot be opened after the next lock, although class 7 is open
    /// then. The file is closed until the records are in it.
    @Test func recordsThatWaitKeepTheFileClosed() throws {
        let scene = try Scene()
        scene.it.lock()
        #expect(scene.close())
        try scene.late("new")
        scene.it.volume.release(scene.node, writable: true)
        try scene.it.unlock()
        scene.it.lock()
        #expect(throws: VolumeError.locked(Self.seven)) { try scene.it.read("f") }
        try scene.it.write("other", "x")
        try scene.it.setClass("other", "7")
        #expect(try scene.it.read("other") == "x")
        try scene.it.unlock()
        #expect(try scene.it.read("f") == "new old old")
        #expect(LateScene.lateFiles(scene.store).isEmpty)
    }

    @Test func aSaveByRenameKeepsIt() throws {
        let scene = try Scene()
        try scene.it.mkdir("d")
        for name in ["d/one", "d/two"] { try scene.it.write(name, name) }
        scene.it.lock()
        try scene.it.rename("d/one", "f")
        #expect(try scene.it.getClass("f") == "completeWhenUserInactive" && scene.it.read("f") == "d/one")
        #expect(scene.close())
        #expect(throws: VolumeError.locked(Self.seven)) { try scene.it.rename("d/two", "f") }
        #expect(try scene.it.getClass("d/two") == "completeUntilFirstUserAuthentication")
        try scene.it.unlock()
        #expect(try scene.it.read("f") == "d/one")
    }
}
