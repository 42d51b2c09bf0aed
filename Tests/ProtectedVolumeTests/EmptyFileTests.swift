// Empty files of class completeUnlessOpen, opened for writing while their class is closed.

import BackingStore
import HostSystem
import KeyFiles
import Keybag
@testable import MemoryStore
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

@Suite struct EmptyFileTests {
    /// A store with a file of an earlier mount, whose key is gone, and its header.
    private func closed(
        _ keys: ContentKeys, _ bytes: [UInt8] = [], class protectionClass: ProtectionClass = .completeUnlessOpen,
        isClean: Bool = true
    ) throws -> (MemoryStore, FileHeader) {
        let store = MemoryStore()
        let context = keys.mount()
        let made = try store.create(in: context, class: protectionClass)
        try made.put(bytes, at: 0)
        try made.synchronize(dataOnly: false)
        let header = made.header
        made.wipeKeys()
        if isClean { try context.epochs.close() }
        store.makeDurable()
        return (store, header)
    }

    private func openEmpty(_ store: MemoryStore, in context: ContentContext) throws -> FileContent? {
        let backing = try store.backing()
        return try FileContent.openEmpty(in: context, backing: backing, try backing.status())
    }

    @Test(arguments: [CipherSuite.aes256GCM, .xChaCha20Poly1305]) func newKeyWhileLocked(_ suite: CipherSuite) throws {
        let keys = try ContentKeys(suite)
        let (store, old) = try closed(keys)
        keys.lock()
        let context = keys.mount()
        let time = try store.backing().status().modified
        store.clearRecords()
        #expect(throws: VolumeError.locked(.completeUnlessOpen)) { try store.open(in: context) }
        let content = try #require(try openEmpty(store, in: context))
        // The new key is durable before anything is written under it.
        let changes = store.records.map(\.call).filter { [.write, .truncate, .fdatasync, .fsync].contains($0) }
        #expect(changes == [.write, .fsync])
        let header = content.header
        #expect(header.fileID == old.fileID && header.protectionClass == .completeUnlessOpen)
        #expect(!header.wrappedKey.span.copiedBytes().elementsEqual(old.wrappedKey.span.copiedBytes()))
        #expect(try content.backing.status().modified == time)
        try content.put([1, 2, 3], at: 0)
        #expect(try content.getAll() == [1, 2, 3])
        try content.settle()
        content.wipeKeys()
        #expect(try openEmpty(store, in: context) == nil, "it is not empty any more")
        try keys.unlock()
        #expect(try store.open(in: context).getAll() == [1, 2, 3])
    }

    @Test func onlyCertainlyEmptyFilesOfThatClass() throws {
        let keys = try ContentKeys(.aes256GCM)
        let full = try closed(keys, [1]).0
        let others = try ProtectionClass.allCases.filter { $0 != .completeUnlessOpen }.map {
            try closed(keys, class: $0).0
        }
        let crashed = try closed(keys, isClean: false).0
        let cut = try closed(keys, [1, 2, 3]).0
        let fresh = try closed(keys).0
        // A store has lost the length: the page still says that it has content.
        try cut.backing().truncate(to: 4096)
        keys.lock()
        for store in [full, crashed, cut] + others { #expect(try openEmpty(store, in: keys.mount()) == nil) }
        #expect(try openEmpty(fresh, in: keys.mount(isReadOnly: true)) == nil)
        #expect(try openEmpty(fresh, in: keys.mount(isShared: true)) == nil)
        #expect(try openEmpty(fresh, in: keys.mount()) != nil)
        try keys.unlock()
        #expect(try cut.open(in: keys.mount()).getAll() == [1, 2, 3])
    }

    /// The power fails after each call: the file is empty or has what was written, under either key.
    @Test func everyCut() throws {
        let keys = try ContentKeys(.aes256GCM)
        let bytes = [UInt8](repeating: 5, count: 9000)
        for cut in 0..<40 {
            let (store, _) = try closed(keys)
            keys.lock()
            store.cutPower(after: cut)
            var isWhole = false
            if let content = try? openEmpty(store, in: keys.mount()) {
                isWhole = (try? content.put(bytes, at: 0)) != nil && (try? content.synchronize(dataOnly: false)) != nil
                content.wipeKeys()
            }
            store.clearFaults()
            try keys.unlock()
            for crashed in store.crashes(atMost: 64, seed: UInt64(cut)) {
                let found = try crashed.open(in: keys.mount()).getAll()
                #expect(found.allSatisfy { $0 == 5 || $0 == 0 } && found.count <= bytes.count, "cut \(cut)")
                if isWhole { #expect(found == bytes) }
            }
            keys.openEpochs.withLock { $0 = [] }
            if isWhole { return }
        }
        Issue.record("the writes never ran to their end")
    }
}
