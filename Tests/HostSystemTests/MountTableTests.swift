// mountinfo's escapes and fields, and paths as bytes.

import Glibc
import Testing

@testable import HostSystem

@Suite struct MountTableTests {
    @Test func deviceNumbers() throws {
        var status = stat()
        #expect(unsafe stat("/proc", &status) == 0)
        #expect(try MountTable.entry(containing: HostPath("/proc"))?.deviceNumber == UInt64(status.st_dev))
        let line = "36 35 4660:1048577 / /mnt rw - fuse.protectfs /v rw"
        #expect(MountTable.parse(Array(line.utf8)).first?.deviceNumber == 0x1001_0002_3401)
    }

    @Test func parsesEscapes() {
        let line =
            "36 35 0:52 / /mnt/a\\040b\\134c rw,nosuid - fuse.protectfs /home/x\\011y rw,user_id=1000,allow_other\nrubbish\n"
        let entries = MountTable.parse(Array(line.utf8))
        #expect(entries.count == 1)
        #expect(entries.first?.mountPoint == HostPath("/mnt/a b\\c"))
        #expect(entries.first?.source == HostPath("/home/x\ty"))
        #expect(entries.first?.device == "0:52")
        #expect(entries.first?.isProtectfs == true)
        #expect(entries.first?.number(of: "user_id") == 1000)
    }

    @Test func linesOfADevice() throws {
        let lines = [
            "36 35 0:52 / /a rw - fuse.protectfs /v rw", "37 35 0:5 / /b rw - tmpfs t rw",
            "38 0:52 10:52 /0:52 /c/0:52 rw - tmpfs 0:52 rw", "0:52", " 0:52 ", "",
            "39 35 0:52 / /d rw - fuse.protectfs /v rw",
        ]
        for end in ["", "\n"] {
            let table = Array((lines.joined(separator: "\n") + end).utf8)
            let found = MountTable.lines(of: "0:52", in: table).map { String(decoding: $0, as: UTF8.self) }
            #expect(found == [lines[0], lines[6]])
            #expect(MountTable.lines(of: "0:53", in: table).isEmpty)
        }
        #expect(MountTable.lines(of: "0:52", in: []).isEmpty)
        let root = try #require(try MountTable.entry(containing: HostPath("/proc")))
        #expect(try MountTable.entries(of: root.device) == MountTable.read().filter { $0.device == root.device })
    }

    @Test func controlSockets() throws {
        let line = "36 35 0:52 / /mnt rw - fuse.protectfs /v rw,user_id=1000"
        let mount = try #require(MountTable.parse(Array(line.utf8)).first)
        let sockets = SystemPaths.controlSockets(of: mount)
        #expect(sockets.allSatisfy { $0.lastComponent == HostPath("0:52") })
        #expect(SystemPaths.user != 0 || sockets.first == HostPath("/run/protectfs/0:52"))
        let places = SystemPaths.runtimes(of: 0)
        #expect(places == [HostPath("/run/protectfs")])
        // No place is shared with other users.
        #expect(!sockets.contains { $0.isInside(HostPath("/tmp")) && SystemPaths.user == 0 })
    }

    @Test func readsItsOwn() throws {
        #expect(try MountTable.entry(containing: HostPath("/proc/self"))?.type == "proc")
    }

    @Test func pathParts() {
        #expect(HostPath("/a/b/").lastComponent == HostPath("b"))
        #expect(HostPath("/a/b/").parent == HostPath("/a"))
        #expect(HostPath("/a").parent == HostPath("/"))
        #expect(HostPath("a").parent == HostPath("."))
        #expect(HostPath("/a/b").isInside(HostPath("/a")))
        #expect(!HostPath("/ab").isInside(HostPath("/a")))
        #expect(HostPath("/a b%/ü&'~:@\n").inURI == Array("/a%20b%25/%C3%BC&'~:@%0A".utf8))
        #expect(HostPath("a\nb").description == "a\\x0Ab")
        // U+009B begins an escape sequence, U+202E turns the text after it, U+2028 ends a line.
        #expect(HostPath("ü\u{9b}2J").description == "ü\\xC2\\x9B2J")
        #expect(HostPath("a\u{202e}b\u{2028}c").description == "a\\xE2\\x80\\xAEb\\xE2\\x80\\xA8c")
    }

    @Test func runsPrograms() throws {
        #expect(try ChildProcess.run("sh", ["-c", "exit 7"]) == .exited(7))
        #expect(throws: SystemError.self) { try ChildProcess.run("/nonexistent/program", []) }
    }
}
