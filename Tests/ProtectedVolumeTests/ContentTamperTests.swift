// Tampering with backing files byte by byte and page by page: an error, never wrong data.

import BackingStore
@testable import MemoryStore
import HostSystem
import KeyFiles
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

@Suite struct ContentTamperTests {
    private let keys: ContentKeys
    private let store = MemoryStore()
    private let bytes: [UInt8]

    init() throws {
        keys = try ContentKeys(.aes256GCM)
        var random = SeededGenerator(4)
        bytes = random.bytes(14_000)
        let context = keys.mount()
        for name in ["f", "g"] {
            let content = try store.create(name, in: context)
            try content.put(bytes, at: 0)
            try content.settle()
        }
        try context.epochs.close()
    }

    private func read(_ name: String = "f", _ tolerance: CrashTolerance = .byEpoch) -> Result<[UInt8], VolumeError> {
        do {
            let content = try store.open(name, in: keys.mount(tolerance))
            return .success(try content.getAll())
        } catch let error as VolumeError {
            return .failure(error)
        } catch {
            return .failure(.store(.EIO))
        }
    }

    private func isDamaged(_ result: Result<[UInt8], VolumeError>) -> Bool {
        if case .failure(.damaged) = result { return true }
        return false
    }

    private func page(_ number: Int, of name: String = "f") throws -> [UInt8] {
        var page = [UInt8](repeating: 0, count: 4096)
        var raw = page.mutableSpan
        _ = try store.backing(name).read(into: &raw, at: UInt64(number * 4096))
        return page
    }

    private func overwrite(_ number: Int, with page: [UInt8], of name: String = "f") throws {
        try store.backing(name).write(page.span, at: UInt64(number * 4096))
    }

    @Test func everyFieldOfEveryPage() throws {
        for number in 0..<4 {
            let original = try page(number)
            // Each byte of header, nonce and field; some of the ciphertext; each of the tag.
            for index in Array(0..<160) + stride(from: 160, to: 4080, by: 97) + Array(4080..<4096) {
                var changed = original
                changed[index] ^= 0x10
                try overwrite(number, with: changed)
                #expect(isDamaged(read()), "page \(number), byte \(index)")
            }
            try overwrite(number, with: original)
        }
        #expect(read() == .success(bytes))
    }

    @Test func pagesSwappedZeroedOrCutOff() throws {
        let pages = try (0..<4).map { try page($0) }
        let other = try (0..<4).map { try page($0, of: "g") }
        let zero = [UInt8](repeating: 0, count: 4096)
        for one in 0..<4 {
            for two in 0..<4 where one != two {
                try overwrite(one, with: pages[two])
                #expect(isDamaged(read()))
            }
            try overwrite(one, with: other[one])
            #expect(isDamaged(read()))
            try overwrite(one, with: zero)
            // The zeroed last page is a cut-off end; page 0 a missing header; the others zeros without HOLES.
            #expect(isDamaged(read()), "zeroed \(one)")
            try overwrite(one, with: pages[one])
        }
        for length in [0, 1, 4095, 4096, 5000, 8192, 12_288, 12_300] {
            try store.backing().truncate(to: UInt64(length))
            #expect(isDamaged(read()), "cut to \(length)")
            try store.backing().truncate(to: 4 * 4096)
            for number in 0..<4 { try overwrite(number, with: pages[number]) }
        }
        #expect(read() == .success(bytes))
        // Zeros behind the end are dropped; something else is not believed.
        try store.backing().truncate(to: 9 * 4096)
        #expect(read() == .success(bytes))
        try overwrite(6, with: pages[2])
        #expect(isDamaged(read()))
    }

    @Test func anotherHeader() throws {
        let own = try page(0)
        let foreign = try page(0, of: "g")
        try overwrite(0, with: Array(foreign[0..<128]) + own[128...])
        #expect(isDamaged(read()))
        // A header of another class of the same file on another version of its body.
        try overwrite(0, with: own)
        let context = keys.mount()
        let content = try store.open(in: context)
        try content.changeClass(to: .none, explicit: true)
        try content.settle()
        try context.epochs.close()
        let changed = try page(0)
        try overwrite(0, with: Array(own[0..<128]) + changed[128...])
        #expect(isDamaged(read()))
        try overwrite(0, with: changed)
        #expect(read() == .success(bytes))
    }

    /// The same cut or zeroed page in a file whose epoch ended badly is tolerated and reported, and is an error again
    /// when the epoch has been closed.
    @Test func afterACrash() throws {
        let context = keys.mount()
        let content = try store.create("c", in: context)
        try content.put(bytes, at: 0)
        try content.settle()
        // The epoch stays open.
        let original = try page(1, of: "c")
        try overwrite(1, with: [UInt8](repeating: 0, count: 4096), of: "c")
        var expected = bytes
        for index in 3932..<7992 { expected[index] = 0 }
        #expect(read("c") == .success(expected))
        #expect(keys.evidence.withLock { $0.contains { $0.kind == .zeroPage && $0.page == 1 } })
        #expect(isDamaged(read("c", .nothing)))
        keys.openEpochs.withLock { $0 = [] }
        #expect(isDamaged(read("c")))
        #expect(read("c", .everything) == .success(expected))
        try overwrite(1, with: original, of: "c")
        #expect(read("c") == .success(bytes))
    }

    /// Another program wrote the file between its status and the read of page 0.
    @Test(arguments: [128, 2000, 4095]) func aLengthThatIsNoLongerTrue(_ length: UInt64) throws {
        let backing = try store.backing()
        var status = try backing.status()
        status.size = length
        #expect(throws: VolumeError.damaged(.length)) {
            try FileContent.open(in: keys.mount(), backing: backing, status)
        }
    }

    @Test func missingHeaderTakesTheInheritedClass() throws {
        let context = keys.mount()
        let content = try store.create("n", in: context)
        try content.put(bytes, at: 0)
        try overwrite(0, with: [UInt8](repeating: 0, count: 4096), of: "n")
        let next = keys.mount()
        #expect(try FileContent.header(in: next, backing: try store.backing("n"))?.fileID == nil)
        let opened = try FileContent.open(in: next, backing: try store.backing("n"), inheritedClass: .none)
        #expect(opened.size == 0)
        #expect(opened.protectionClass == .none)
        try opened.put([1, 2], at: 3)
        try opened.settle()
        try next.epochs.close()
        keys.openEpochs.withLock { $0 = [] }
        #expect(read("n") == .success([0, 0, 0, 1, 2]))
    }
}
