// The check of a whole volume: clean, damaged, crashed, and with only the device key.

import BackingStore
@testable import MemoryStore
import KeyFiles
import Keybag
import HostSystem
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume
@testable import VolumeCheck

@Suite struct CheckTests {
    private func fill(_ it: TestVolume) throws {
        for letter in ["A", "B", "C", "D"] {
            try it.mkdir(letter)
            try it.setClass(letter, letter)
            try it.mkdir("\(letter)/sub")
            for index in 0..<20 { try it.write("\(letter)/sub/\(index)", String(repeating: "text ", count: 2000)) }
            try it.volume.setXattr(
                it.node("\(letter)/sub/0"), Array("user.x".utf8), value: [1], mode: .set)
        }
        _ = try it.volume.link(it.node("C/sub/1"), Array("hard link".utf8), in: it.volume.root)
        _ = try it.volume.symlink(
            Array("link".utf8), in: it.volume.root, target: [65], caller: TestVolume.caller)
        try it.write(String(repeating: "l", count: 255))
    }

    @Test func cleanVolume() throws {
        let it = try TestVolume()
        try fill(it)
        try it.volume.close()
        let all = try CheckOutcome.of(it, it.directory)
        #expect(all.kinds == [])
        #expect(all.summary.files == 81)
        #expect(all.summary.directories == 9)
        #expect(all.summary.symlinks == 1)
        #expect(all.summary.bytes == 80 * 10_000 + 1)
        #expect(all.summary.isComplete && all.summary.closedEpochs)
        let device = try CheckOutcome.of(it, it.directory, unlocked: false)
        #expect(device.kinds == [])
        #expect(device.summary.bytes == 20 * 10_000)
        #expect(!device.summary.isComplete && !device.summary.closedEpochs)
        let unchecked: [ProtectionClass: Int] = [
            .complete: 20, .completeUnlessOpen: 20, .completeUntilFirstUserAuthentication: 21,
        ]
        #expect(device.summary.unchecked == unchecked)
    }

    /// Whatever fits into memory, and however many workers there are.
    @Test func findingsComeInTheSameOrder() throws {
        let it = try TestVolume()
        try fill(it)
        for index in 0..<100 { try it.write("C/\(index)", "text") }
        try it.volume.close()
        for path in ["A/sub/3", "B/sub/7", "C/17", "C/70", "C/sub/3", "D/sub/11"] {
            let (directory, entry) = try it.backing(path)
            try directory.openFile(entry, .readWrite).write([UInt8](repeating: 7, count: 3).span, at: 200)
        }
        // Copies under names that verify.
        for (from, to) in [("C/1", "C/2"), ("A/sub/0", "A/sub/9"), ("D/sub", "B/sub")] {
            let (directory, entry) = try it.backing(from == "D/sub" ? "D/sub/2" : from)
            let (other, target) = try it.backing(to == "B/sub" ? "B/sub/2" : to)
            let source = try directory.openFile(entry, .readOnly)
            var bytes = [UInt8](repeating: 0, count: Int(try source.status().size))
            var raw = bytes.mutableSpan
            let count = try source.read(into: &raw, at: 0)
            let copy = try other.openFile(target, .readWrite)
            try copy.truncate(to: UInt64(count))
            try copy.write(bytes.span.extracting(0..<count), at: 0)
        }
        func lines(_ outcome: CheckOutcome) -> [String] {
            outcome.findings.map { "\($0.severity) \($0.kind) \(String(decoding: $0.path, as: UTF8.self))" }
        }
        let first = try CheckOutcome.of(it, it.directory, mends: false, threads: 1)
        #expect(first.findings.count { $0.kind == .duplicate } == 3)
        #expect(first.summary.errors >= 6)
        let scratch = MemoryStore()
        for (threads, names, ids) in [(1, 7, 5), (2, 64, 100), (8, 32768, 65536), (8, 3, 1)] {
            let again = try CheckOutcome.of(it, it.directory, mends: false, threads: threads) { options in
                options.namesInMemory = names
                options.idsInMemory = ids
                options.scratch = scratch.root
            }
            #expect(lines(again) == lines(first), "\(threads) threads, \(names) names, \(ids) IDs")
            #expect(again.summary.files == first.summary.files)
        }
        #expect(try scratch.root.entries().isEmpty)
        let unsought = try CheckOutcome.of(it, it.directory, mends: false) { $0.idsInMemory = 5 }
        #expect(unsought.kinds.contains("duplicates-unchecked") && !unsought.kinds.contains("duplicate"))
    }

    @Test func damageIsFoundWithItsPath() throws {
        let it = try TestVolume()
        try fill(it)
        try it.volume.close()
        let (directory, entry) = try it.backing("C/sub/5")
        let file = try directory.openFile(entry, .readWrite)
        let change = [UInt8](repeating: 7, count: 3)
        try file.write(change.span, at: 5000)
        _ = try it.directory.createFile(BackingName.known(Array("foreign".utf8)), mode: 0o600)
        let (links, link) = try it.backing("link")
        try links.unlink(link)
        try links.createSymlink(link, target: Array("AAAA".utf8))
        try it.volume.directory(it.node("D")).unlink(BackingName.record)
        try it.directory.createSymlink(BackingName.temporary(), target: [65])
        let (header, headerEntry) = try it.backing("B/sub/3")
        try header.openFile(headerEntry, .readWrite).write(change.span, at: 4)
        let found = try CheckOutcome.of(it, it.directory)
        #expect(
            found.kinds == [
                "block", "foreign", "header", "missing-header", "missing-record", "symlink", "temporary",
                "unverified-name",
            ])
        let block = try #require(found.findings.first { $0.kind == .block })
        #expect(String(decoding: block.path, as: UTF8.self) == "C/sub/5")
        #expect((block.page == 1) as Bool)
        #expect(block.backingPath.suffix(entry.bytes.count).elementsEqual(entry.bytes))
        #expect(found.summary.errors == 6)
        #expect(!found.summary.closedEpochs)
    }

    @Test func crashesAreMendedAndTheirEpochsClosed() throws {
        let store = MemoryStore()
        let it = try TestVolume(store.root)
        try it.write("f", String(repeating: "before ", count: 2000))
        try it.volume.synchronize(it.node("f"), dataOnly: false)
        // A page is zeroed, and the mount never ends well.
        let (directory, entry) = try it.backing("f")
        let zeros = [UInt8](repeating: 0, count: 4096)
        try directory.openFile(entry, .readWrite).write(zeros.span, at: 4096)
        _ = try directory.createFile(
            try it.volume.names.encode(Array("empty".utf8), in: it.volume.keys.metadata.rootID).entry, mode: 0o600)
        let left = try CheckOutcome.of(it, store.root, mends: false)
        #expect(left.summary.crashes > 0)
        #expect(!left.summary.closedEpochs)
        let found = try CheckOutcome.of(it, store.root)
        #expect(found.summary.errors == 0)
        #expect(found.summary.mended == 2)
        #expect(found.summary.closedEpochs)
        let clean = try CheckOutcome.of(it, store.root)
        #expect(clean.kinds == [])
        // The same damage is tampering now.
        try directory.openFile(entry, .readWrite).write(zeros.span, at: 4096)
        let tampered = try CheckOutcome.of(it, store.root)
        #expect(tampered.kinds == ["zero-page"])
    }

    @Test func aMountedVolumeIsRefused() throws {
        let it = try TestVolume()
        let mounted = try it.directory.reopen()
        try Volume.claim(mounted, VolumeOptions())
        #expect(throws: VolumeError.refused(.EBUSY)) { _ = try CheckOutcome.of(it, it.directory) }
        withExtendedLifetime(mounted) {}
    }

    @Test func staleAsidesGoAndOthersAreUsed() throws {
        let it = try TestVolume()
        try it.mkdir("d")
        try it.write("d/f", "kept")
        let (root, entry) = try it.backing("d")
        let directory = try it.volume.directory(it.node("d"))
        let id = try #require(try it.volume.directoryID(it.node("d")))
        let rootID = it.volume.keys.metadata.rootID
        let names = it.volume.names
        try directory.rename(
            BackingName.record, to: root, names.asideName(parent: rootID, directory: id, name: entry))
        let gone = VerifiedRecord(directoryID: NameCipher.randomID(), defaultClass: nil)
        let stale = names.asideName(parent: rootID, directory: gone.directoryID, name: BackingName.temporary())
        try root.createSymlink(stale, target: names.recordTarget(gone))
        try it.volume.close()
        let found = try CheckOutcome.of(it, it.directory)
        #expect(found.kinds == ["restored-record", "stale-aside"])
        #expect(try root.entries().count == 2)
        #expect(try CheckOutcome.of(it, it.directory).kinds == [])
    }

    @Test func stagingOfKilledProgramsIsNotedAndStays() throws {
        let it = try TestVolume()
        let names = [".protectfs-staging-0", ".protectfs-staging-1000", ".protectfs-staging-", ".protectfs-staging-1x"]
        try it.mkdir("d")
        for name in names {
            try it.mkdir("d/\(name)")
            try it.write("d/\(name)/content", name)
        }
        try it.write(".protectfs-staging-1", "a file")
        try it.volume.close()
        for unlocked in [true, false] {
            let found = try CheckOutcome.of(it, it.directory, unlocked: unlocked)
            #expect(found.kinds == ["staging", "staging", "staging"])
            let paths = found.findings.map { String(decoding: $0.path, as: UTF8.self) }
            #expect(paths.sorted() == [".protectfs-staging-1", "d/.protectfs-staging-0", "d/.protectfs-staging-1000"])
            #expect(found.summary.notes == 3 && found.summary.files == 5)
        }
        #expect(try it.mountAgain(it.directory).list("d").sorted() == names.sorted())
    }

    @Test func everyKindOfDamageToNamesHasItsOwnLine() throws {
        let it = try TestVolume()
        let long = String(repeating: "n", count: 200)
        for path in ["kept", "flipped", "cloned", "d", "e"] {
            if path.count > 1 { try it.write(path, path) } else { try it.mkdir(path) }
        }
        try it.write("d/" + long, "long")
        try it.write("e/" + long, "long")
        try it.volume.close()
        // A long name whose companion is gone, and a companion whose long name is gone.
        let (first, firstEntry) = try it.backing("d/" + long)
        try first.unlink(try #require(Volume.companionName(of: firstEntry)))
        let (second, secondEntry) = try it.backing("e/" + long)
        try second.unlink(secondEntry)
        // A name changed, a file copied over another one, an aside that verifies nowhere, names of no form of ours.
        let (root, flipped) = try it.backing("flipped")
        var bytes = Array(flipped.bytes)
        bytes[3] = bytes[3] == 65 ? 66 : 65
        try root.rename(flipped, to: root, BackingName.known(bytes))
        let source = try root.openFile(it.backing("kept").1, .readOnly)
        let target = try root.openFile(it.backing("cloned").1, .readWrite)
        var page = [UInt8](repeating: 0, count: 4100)
        var raw = page.mutableSpan
        let count = try source.read(into: &raw, at: 0)
        try target.truncate(to: UInt64(count))
        try target.write(page.span.extracting(0..<4096), at: 0)
        try root.createSymlink(BackingName.known(Array(".protectfs.aside.x".utf8)), target: [65])
        try root.createDirectory(BackingName.known(Array("lost+found".utf8)), mode: 0o700)
        _ = try root.createFile(BackingName.known(Array(".protectfs.keybag.old".utf8)), mode: 0o600)
        let found = try CheckOutcome.of(it, it.directory)
        #expect(
            found.kinds == [
                "aside", "companion", "duplicate", "foreign", "name", "orphan-companion", "previous-keybag",
            ])
        #expect(found.summary.errors == 3)
        #expect(found.summary.notes == 4)
    }

    @Test func filesThatACrashHasEmptied() throws {
        let it = try TestVolume()
        try it.mkdir("d")
        for path in ["d/a", "d/b", "d/c"] {
            try it.write(path, "content")
            let (directory, entry) = try it.backing(path)
            try directory.openFile(entry, .readWrite).truncate(to: 0)
        }
        try it.setClass("d", "B")
        // The mount never ended well, so these are empty files now.
        let again = try it.mountAgain(it.directory)
        #expect(try again.read("d/a") == "")
        try again.volume.setXattr(again.node("d/b"), Array("user.x".utf8), value: [1], mode: .set)
        #expect(try again.volume.getXattr(again.node("d/b"), Array("user.x".utf8)) == [1])
        try again.write("new", "saved")
        try again.rename("new", "d/c")
        #expect(try again.read("d/c") == "saved")
        #expect(try again.getClass("d/c") == "completeUnlessOpen")
        #expect(try again.getClass("d/b") == "completeUnlessOpen")
    }
}
