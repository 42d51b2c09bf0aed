// A name keeps its class, and a family of names shares the strongest.

import BackingStore
import HostSystem
import KeyFiles
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

@Suite struct FamilyTests {
    static let complete = "complete"
    static let usual = "completeUntilFirstUserAuthentication"

    private func volume(_ path: String = "diary.txt", _ letter: String = "A") throws -> TestVolume {
        let it = try TestVolume()
        try it.write(path)
        try it.setClass(path, letter)
        return it
    }

    private func flags(_ it: TestVolume, _ path: String) throws -> String {
        String(decoding: try it.volume.getXattr(it.node(path), Array("user.protectfs.flags".utf8)), as: UTF8.self)
    }

    @Test func derivedNamesTakeTheStrongest() throws {
        let it = try volume()
        for name in [".diary.txt.swp", "#diary.txt#", "diary.txt~", "diary.txt-journal", ".diary.txt.aB3dEf"] {
            try it.write(name)
            #expect(try it.getClass(name) == Self.complete, "\(name)")
            #expect(try !flags(it, name).contains("explicit"), "\(name)")
        }
        try it.write("other.txt~")
        try it.write("letter.txt")
        #expect(try it.getClass("other.txt~") == Self.usual)
        #expect(try it.getClass("letter.txt") == Self.usual)
        // A weaker one takes nothing away.
        try it.mkdir("d")
        try it.setClass("d", "A")
        try it.write("d/x")
        try it.setClass("d/x", "D")
        try it.write("d/x~")
        #expect(try it.getClass("d/x~") == Self.complete)
    }

    @Test func namesThatOthersAreDerivedFrom() throws {
        let it = try volume("diary.txt~")
        try it.write("diary.txt")
        #expect(try it.getClass("diary.txt") == Self.complete)
        // Also where the directory was not made by this mount, and in a large one.
        let long = String(repeating: "l", count: 200)
        try it.mkdir("d")
        for number in 0..<1100 { try it.write("d/\(number)") }
        for name in ["700~", "\(long)~"] {
            try it.write("d/\(name)")
            try it.setClass("d/\(name)", "B")
        }
        try it.unlink("d/700")
        let again = try it.mountAgain(it.directory)
        for number in 2000..<2010 { try again.write("d/\(number)") }
        try again.write("d/700")
        try again.write("d/\(long)")
        #expect(try again.getClass("d/700") == "completeUnlessOpen")
        #expect(try again.getClass("d/\(long)") == "completeUnlessOpen")
        #expect(try again.getClass("d/2009") == Self.usual)
        // Names that come by a rename or a link are known as well.
        let third = try it.mountAgain(it.directory)
        try third.mkdir("e")
        try third.write("e/first")
        try third.rename("diary.txt~", "e/moved~")
        try third.write("e/moved")
        #expect(try third.getClass("e/moved") == Self.complete)
        let link = try third.volume.link(
            third.node("e/moved"), Array("linked.bak".utf8), in: third.node("e"))
        third.volume.forget(link.node, count: 1)
        try third.write("e/linked")
        #expect(try third.getClass("e/linked") == Self.complete)
    }

    @Test func aNameKeepsItsClass() throws {
        let it = try volume()
        try it.unlink("diary.txt")
        try it.write("diary.txt")
        #expect(try it.getClass("diary.txt") == Self.complete)
        // Emacs: renamed away, made anew.
        try it.rename("diary.txt", "elsewhere")
        try it.write("diary.txt")
        #expect(try it.getClass("diary.txt") == Self.complete)
        // sed -i.bak: renamed away, and another renamed into its place.
        try it.rename("diary.txt", "elsewhere")
        try it.write("sedAb3dEf")
        try it.rename("sedAb3dEf", "diary.txt")
        #expect(try it.getClass("diary.txt") == Self.complete)
        #expect(try !flags(it, "diary.txt").contains("explicit"))
        #expect(throws: VolumeError.noEntry) { try it.node("sedAb3dEf") }
        // Somebody has chosen: it stays, and is what the name keeps from then on.
        try it.unlink("diary.txt")
        try it.write("chosen")
        try it.setClass("chosen", "C")
        try it.rename("chosen", "diary.txt", .noReplace)
        #expect(try it.getClass("diary.txt") == Self.usual)
        try it.unlink("diary.txt")
        try it.write("diary.txt")
        #expect(try it.getClass("diary.txt") == Self.usual)
        // Another directory's name is another name.
        try it.mkdir("d")
        try it.write("x")
        try it.setClass("x", "A")
        try it.unlink("x")
        try it.write("d/x")
        #expect(try it.getClass("d/x") == Self.usual)
    }

    @Test func whileLocked() throws {
        let it = try volume()
        try it.write("b", "b")
        try it.setClass("b", "B")
        try it.write("saved")
        it.lock()
        #expect(throws: VolumeError.locked(.complete)) { try it.write(".diary.txt.swp") }
        #expect(try it.list("") == ["b", "diary.txt", "saved"])
        try it.unlink("diary.txt")
        #expect(throws: VolumeError.locked(.complete)) { try it.write("diary.txt") }
        #expect(throws: VolumeError.locked(.complete)) { try it.rename("saved", "diary.txt") }
        #expect(try it.list("") == ["b", "saved"])
        #expect(try it.read("saved") == "x")
        try it.write("b~", "while locked")
        try it.unlink("b")
        try it.write("b", "anew")
        try it.unlock()
        #expect(try it.getClass("b~") == "completeUnlessOpen")
        #expect(try it.getClass("b") == "completeUnlessOpen")
        #expect(try it.read("b") == "anew")
    }

    /// A relative, or a file removed, whose header does not verify counts as the strongest; mounted anew, so that nothing
    /// is known of it.
    @Test func damageIsNoWeakness() throws {
        let it = try volume("diary.txt", "C")
        try it.write("gone")
        for name in ["diary.txt", "gone"] { try it.damage(name, at: 20) }
        let again = try it.mountAgain(it.directory)
        try again.write("diary.txt~")
        #expect(try again.getClass("diary.txt~") == Self.complete)
        try again.unlink("gone")
        try again.write("gone")
        #expect(try again.getClass("gone") == Self.complete)
    }

    /// Objects other than files have no class to pass on.
    @Test func onlyFiles() throws {
        let it = try volume("d~", "C")
        try it.unlink("d~")
        try it.mkdir("d")
        try it.setClass("d", "A")
        try it.write("d~")
        #expect(try it.getClass("d~") == Self.usual)
        try it.rmdir("d")
        try it.write("d")
        #expect(try it.getClass("d") == Self.usual)
    }

    @Test func turnedOff() throws {
        let first = try volume()
        var options = VolumeOptions()
        options.keepsFamilyClass = false
        let it = try first.mountAgain(first.directory, options: options)
        try it.write("diary.txt~")
        try it.rename("diary.txt", "elsewhere")
        try it.write("diary.txt")
        try it.write("saved")
        try it.rename("elsewhere", "again")
        try it.rename("saved", "elsewhere")
        for name in ["diary.txt~", "diary.txt", "elsewhere"] { #expect(try it.getClass(name) == Self.usual) }
    }

    @Test func forgottenAfterAMinute() throws {
        let time = Lock<UInt64>(5)
        let table = RecentlyFreedNames { time.withLock { $0 } }
        let name = try #require(EntryName("name"))
        table.remember(name, .complete)
        time.withLock { $0 += RecentlyFreedNames.nanoseconds }
        #expect(table.protectionClass(of: name) == .complete)
        time.withLock { $0 += 1 }
        #expect(table.protectionClass(of: name) == nil)
        #expect(table.count == 0)
        table.remember(name, .complete)
        table.remember(name, nil)
        #expect(table.protectionClass(of: name) == nil)
    }

    @Test func bounded() throws {
        let time = Lock<UInt64>(0)
        let table = RecentlyFreedNames {
            time.withLock {
                $0 += 1; return $0
            }
        }
        let names = (0..<3 * RecentlyFreedNames.capacity).compactMap { EntryName("name\($0)") }
        for name in names {
            table.remember(name, .complete)
            #expect(table.count <= RecentlyFreedNames.capacity)
        }
        // The newest are there.
        for name in names.suffix(RecentlyFreedNames.capacity / 2) {
            #expect(table.protectionClass(of: name) == .complete)
        }
    }
}
