// Tests that decisions about classes use only proven bytes: the header of another file decides nothing.

import BackingStore
import FileContents
import KeyFiles
import TestSupport
import Testing
import VolumeFormat

@testable import ProtectedVolume

@Suite struct VerifiedClassTests {
    /// The header of another file decides nothing: neither one over the file that is replaced, nor one over the new file.
    @Test(arguments: ["C", "D", "B"]) func aSaveByRenameBelievesNoHeader(_ letter: String) throws {
        let made = try TestVolume()
        try made.write("secret", "old")
        try made.setClass("secret", "A")
        for path in ["weak", "strong"] { try made.write(path, path) }
        try made.setClass("weak", letter)
        try made.setClass("strong", "A")
        try made.volume.close()
        try made.layHeader(of: "weak", over: "secret")
        let it = try made.mountAgain(made.directory)
        try it.write("new", "new")
        // A replaced file that is damaged: an error, and nothing changes.
        #expect(throws: VolumeError.damaged(.block)) { try it.rename("new", "secret") }
        #expect(try it.getClass("new") == "completeUntilFirstUserAuthentication")
        // Over the new file: it claims to be strong enough, or chosen.
        for source in ["strong", "weak"] {
            try it.write("other", "old")
            try it.setClass("other", "A")
            try it.write("next", "next")
            let (directory, entry) = try it.backing("next")
            var before = [UInt8](repeating: 0, count: FileHeader.length)
            var raw = before.mutableSpan
            _ = try directory.openFile(entry, .readOnly).read(into: &raw, at: 0)
            try it.layHeader(of: source, over: "next")
            #expect(throws: VolumeError.self) { try it.rename("next", "other") }
            try it.damage("next", at: 0, before)
            #expect(try it.read("other") == "old")
            // Its node is left, as it was changed below; the kernel looks it up again.
            #expect(throws: VolumeError.stale) { try it.rename("next", "other") }
            try it.rename("next", "other")
            #expect(try it.getClass("other") == "complete")
            #expect(try it.read("other") == "next")
            try it.unlink("other")
        }
    }

    /// While keys are closed, what this mount has proven counts, else the header's word: the result is closed as well.
    @Test func aSaveByRenameWhileNothingCanBeProven() throws {
        let it = try TestVolume()
        for letter in ["A", "B", "C", "D"] {
            try it.write(letter, letter)
            try it.setClass(letter, letter)
        }
        try it.volume.close()
        let again = try it.mountAgain(it.directory)
        again.lock()
        try again.write("new", "new")
        #expect(throws: VolumeError.locked(.complete)) { try again.rename("new", "A") }
        try again.rename("new", "C")
        try again.write("new", "new")
        try again.rename("new", "B")
        #expect(try again.getClass("B") == "completeUnlessOpen")
        try again.unlock()
        #expect(try again.read("B") == "new")
        again.lock()
        try again.write("new", "new")
        try again.rename("new", "B")
        #expect(try again.getClass("B") == "completeUnlessOpen")
        // A header that was changed since does not count.
        try again.unlock()
        #expect(try again.read("A") == "A")
        #expect(try again.read("B") == "new")
        again.lock()
        try again.layHeader(of: "B", over: "A")
        try again.write("new", "new")
        #expect(throws: VolumeError.self) { try again.rename("new", "A") }
        try again.rename("new", "D")
        #expect(try again.getClass("D") == "completeUntilFirstUserAuthentication")
    }

    /// A forged header must not keep a file's pages through a lock.
    @Test func aClaimedClassNeverTakesThePlaceOfAStrongerOne() throws {
        let it = try TestVolume()
        try it.write("a", "a")
        try it.setClass("a", "A")
        try it.write("c", "c")
        #expect(try it.read("a") == "a")
        let node = try it.node("a")
        try it.layHeader(of: "c", over: "a")
        _ = try? it.volume.header(of: node)
        #expect(node.protectionClass == .complete)
    }

    /// The end of the last handle writes the header of an empty file. A rename that has looked at the file before finds it.
    @Test func anEmptyFileIsClosedDuringARename() throws {
        let holder = try TemporaryDirectory()
        let it = try TestVolume(try HostDirectory.open(path: holder.path))
        let (parent, name) = try it.parent("new")
        let (made, _) = try it.volume.create(name, in: parent, mode: 0o600, caller: TestVolume.caller)
        let (directory, entry) = try it.backing("new")
        let before = try #require(try it.volume.status(of: entry, in: directory))
        let opened = try directory.openFile(entry, .readOnly)
        #expect(before.size == 0)
        it.volume.release(made.node, writable: true)
        for file in [nil, opened] {
            let found = try it.volume.verifiedClass(of: entry, before, in: directory, opened: file)
            #expect(found?.protectionClass == .completeUntilFirstUserAuthentication)
        }
        #expect(try FileContent.header(in: it.volume.content, backing: opened) != nil)
    }
}
