// Tests the time that backups see beside the one that programs are shown.

@testable import BackingStore
import HostSystem
import MemoryStore
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

@Suite struct StoredTimeTests {
    private static let old = Timestamp(seconds: 1_000_000_000, nanoseconds: 123_456_789)

    /// A volume with a file "f" of an old time, which nobody has open.
    private func make(_ store: MemoryStore = MemoryStore()) throws -> TestVolume {
        let it = try TestVolume(store.root)
        try it.write("f", "content")
        try set(Self.old, in: it)
        #expect(try stored(in: it) == Self.old)
        return it
    }

    private func set(_ time: Timestamp, in it: TestVolume) throws {
        var change = AttributeChange()
        change.modified = .set(time)
        #expect(try it.volume.setAttributes(of: it.node("f"), change).modified == time)
    }

    private func shown(in it: TestVolume) throws -> Timestamp { try it.volume.attributes(of: it.node("f")).modified }

    /// What a backup sees.
    private func stored(in it: TestVolume) throws -> Timestamp {
        let (directory, name) = try it.backing("f")
        return try directory.status(of: name).stored
    }

    @Test func aFormIsReadAsItWasWritten() {
        let times = [Self.old, .init(seconds: -5, nanoseconds: 0), .init(seconds: .max, nanoseconds: 999_999_999)]
        for time in times { #expect(StoredTime.decode(StoredTime.encode(time)) == time) }
        #expect(StoredTime.decode([]) == nil && StoredTime.decode(Array(repeating: 0, count: 13)) == nil)
        #expect(StoredTime.decode(Array(repeating: 0xFF, count: 12)) == nil)
    }

    /// Everything that writes the ciphertext anew, and no content.
    @Test(arguments: ["stronger", "weaker", "chosen", "encrypted anew"])
    func backupsSeeWhatProgramsDoNot(_ change: String) throws {
        let it = try make()
        switch change {
        case "stronger": try it.setClass("f", "complete")
        case "weaker": try it.setClass("f", "none")
        case "chosen": try it.setClass("f", it.getClass("f"))
        default: #expect(try it.volume.reencrypt(it.node("f"), to: .complete))
        }
        #expect(try shown(in: it) == Self.old)
        #expect(try stored(in: it).seconds > Self.old.seconds)
        try it.volume.close()
        let again = try it.mountAgain(it.directory)
        #expect(try shown(in: again) == Self.old)
        #expect(try again.read("f") == "content")
    }

    /// A time that a program sets must not hide the change: `touch -r`, or a copy program that sets it last.
    @Test func aTimeThatIsSetLaterHidesNothing() throws {
        let it = try make()
        try it.setClass("f", "complete")
        let first = try stored(in: it)
        try set(Self.old, in: it)
        #expect(try shown(in: it) == Self.old)
        let second = try stored(in: it)
        // unison compares pairs of seconds.
        #expect(second.seconds >= first.seconds + 2)
        try it.setClass("f", "none")
        #expect(try stored(in: it).seconds >= second.seconds + 2)
        #expect(try shown(in: it) == Self.old)
    }

    @Test func aWriteEndsTheMark() throws {
        let it = try make()
        try it.setClass("f", "none")
        let content = try it.volume.open(it.node("f"), writable: true)
        try content.write(Array("other".utf8).span, at: 0)
        it.volume.release(try it.node("f"), writable: true)
        #expect(try shown(in: it) == stored(in: it))
        #expect(try shown(in: it) != Self.old)
    }

    /// The kernel can send a time before the pages, as for a rename of a file that is being written. A backup may come between.
    @Test func pagesThatComeAfterTheirTimeAreSeen() throws {
        let it = try make()
        let node = try it.node("f")
        let content = try it.volume.open(node, writable: true)
        try set(Self.old, in: it)
        #expect(try stored(in: it) == Self.old)
        try content.write(Array("CONTENT".utf8).span, at: 0, access: .writeBack)
        it.volume.release(node, writable: true)
        #expect(try it.read("f") == "CONTENT")
        #expect(try shown(in: it) == Self.old)
        #expect(try stored(in: it).seconds > Self.old.seconds)
    }

    /// A later time needs no mark.
    @Test func aLaterTimeEndsTheMark() throws {
        let it = try make()
        try it.setClass("f", "none")
        let later = Timestamp(seconds: try stored(in: it).seconds + 2, nanoseconds: 7)
        try set(later, in: it)
        #expect(try stored(in: it) == later)
    }

    /// A time of a program that looks like a marked one is the program's.
    @Test func aTimeThatLooksMarkedIsGivenBack() throws {
        let it = try make()
        let time = Timestamp(seconds: 5, nanoseconds: StoredTime.mark)
        try set(time, in: it)
        #expect(try shown(in: it) == time)
        try it.setClass("f", "none")
        #expect(try shown(in: it) == time)
        try it.volume.close()
        #expect(try shown(in: it.mountAgain(it.directory)) == time)
    }

    /// A file with the length and time of the one that it replaces is another file all the same.
    @Test(arguments: [RenameMode.replace, .exchange], [false, true])
    func aReplacedFileOfTheSameTimeIsSeen(_ mode: RenameMode, _ isOpen: Bool) throws {
        let it = try make()
        try it.write("g", "another")
        var change = AttributeChange()
        change.modified = .set(Self.old)
        _ = try it.volume.setAttributes(of: it.node("g"), change)
        let (old, new) = (try it.node("f"), try it.node("g"))
        if isOpen { for node in [old, new] { _ = try it.volume.open(node, writable: true) } }
        try it.rename("g", "f", mode)
        for name in mode == .exchange ? ["f", "g"] : ["f"] {
            #expect(try it.volume.attributes(of: it.node(name)).modified == Self.old)
            let (directory, entry) = try it.backing(name)
            #expect(try directory.status(of: entry).stored.seconds > Self.old.seconds)
        }
        if isOpen { for node in [old, new] { it.volume.release(node, writable: true) } }
        #expect(try it.read("f") == "another")
        // It is no change by another program.
        #expect(try it.node("f") === new)
    }

    /// A file that has a later time than the one that it replaces is later for a backup too, whatever became of the former one.
    @Test func aLaterFileIsLaterInTheStore() throws {
        let it = try make()
        try it.setClass("f", "none")
        let former = try stored(in: it)
        try it.write("g", "of another length")
        var change = AttributeChange()
        change.modified = .set(Timestamp(seconds: Self.old.seconds + 9, nanoseconds: 0))
        _ = try it.volume.setAttributes(of: it.node("g"), change)
        try it.rename("g", "f")
        #expect(try stored(in: it).seconds > former.seconds)
        #expect(try shown(in: it).seconds == Self.old.seconds + 9)
    }

    /// Where the store keeps no attribute, backups count more than the time that is shown.
    @Test func withoutTheAttributeTheShownTimeMoves() throws {
        let store = MemoryStore()
        let it = try make(store)
        store.fail(.setAttribute, with: .EOPNOTSUPP)
        try it.setClass("f", "none")
        #expect(try stored(in: it).seconds > Self.old.seconds)
        #expect(try shown(in: it) == stored(in: it))
    }
}
