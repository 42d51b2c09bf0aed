// Runs one list of operations on a directory of the host and on the store in memory. Both must give the same results.

import BackingStore
@testable import MemoryStore
import HostSystem
import Testing

@Suite struct SameBehaviourTests {
    @Test func hostAndMemoryAnswerAlike() throws {
        let place = try TemporaryDirectory()
        let (host, memory) = (Trace(place.directory), Trace(MemoryStore().root))
        for trace in [host, memory] {
            trace.objects()
            trace.content()
            trace.attributes()
            trace.names()
            trace.handles()
        }
        #expect(host.log.count == memory.log.count)
        for (left, right) in zip(host.log, memory.log) { #expect(left == right) }
    }
}

/// Runs operations and writes down every answer.
private final class Trace {
    let root: BackingDirectory
    var log: [String] = []

    init(_ root: BackingDirectory) {
        self.root = root
    }

    func note(_ step: String, _ body: () throws(Errno) -> String) {
        do throws(Errno) {
            log.append("\(step): \(try body())")
        } catch {
            log.append("\(step): \(error)")
        }
    }

    func done(_ step: String, _ body: () throws(Errno) -> Void) {
        note(step) { () throws(Errno) in
            try body()
            return "done"
        }
    }

    func summary(_ status: Status) -> String {
        let size = status.kind == .directory ? 0 : status.size
        return "\(status.kind) \(String(status.mode, radix: 8)) links \(status.links) size \(size)"
    }

    func list(_ directory: BackingDirectory) throws(Errno) -> String {
        try directory.entries().map { "\($0.name) \($0.kind)" }.sorted().joined(separator: ", ")
    }

    func open(_ text: String, _ access: FileAccess = .readWrite) throws(Errno) -> BackingFile {
        try root.openFile(name(text), access)
    }

    func objects() {
        for round in 1...2 {
            done("create a \(round)") { () throws(Errno) in _ = try root.createFile(name("a"), mode: 0o640) }
            done("mkdir d \(round)") { () throws(Errno) in try root.createDirectory(name("d"), mode: 0o750) }
            done("mkdir a \(round)") { () throws(Errno) in try root.createDirectory(name("a"), mode: 0o750) }
            done("symlink s \(round)") { () throws(Errno) in
                try root.createSymlink(name("s"), target: Array("d".utf8))
            }
            done("mkfifo f \(round)") { () throws(Errno) in
                try root.createSpecial(name("f"), mode: FileKind.fifo.modeBits | 0o600, device: 0)
            }
        }
        done("symlink to nothing") { () throws(Errno) in try root.createSymlink(name("s0"), target: []) }
        for entry in ["a", "d", "s", "f", "none"] {
            note("status \(entry)") { () throws(Errno) in summary(try root.status(of: name(entry))) }
            note("node \(entry)") { () throws(Errno) in summary(try root.node(name(entry)).status()) }
            done("read \(entry)") { () throws(Errno) in _ = try open(entry, .readOnly) }
            done("write \(entry)") { () throws(Errno) in _ = try open(entry) }
            done("reopen \(entry)") { () throws(Errno) in _ = try root.node(name(entry)).openFile(.readWrite) }
            note("readlink \(entry)") { () throws(Errno) in "\(try root.readSymlink(name(entry)))" }
        }
        done("a as directory") { () throws(Errno) in _ = try root.openDirectory(name("a")) }
        note("list") { () throws(Errno) in try list(root) }
    }

    func content() {
        note("write and read") { () throws(Errno) in
            let file = try open("a")
            try writeAll(file, [UInt8](repeating: 7, count: 5000), at: 4096)
            let size = try file.status().size
            return "\(size) \(try readAll(file, at: 4000, 200).reduce(0) { $0 + Int($1) })"
        }
        note("past the end") { () throws(Errno) in "\(try readAll(open("a"), at: 9000, 5000).count)" }
        done("write, reading handle") { () throws(Errno) in try writeAll(open("a", .readOnly), [1], at: 0) }
        done("truncate, reading handle") { () throws(Errno) in try open("a", .readOnly).truncate(to: 1) }
        done("beyond any file") { () throws(Errno) in try writeAll(open("a"), [1], at: .max) }
        note("cut and grow") { () throws(Errno) in
            let file = try open("a")
            try file.truncate(to: 5000)
            try file.truncate(to: 9000)
            return "\(try readAll(file, at: 0, 10000).map(Int.init).reduce(0, +))"
        }
        note("punch") { () throws(Errno) in
            let file = try open("a")
            try writeAll(file, [UInt8](repeating: 1, count: 20000), at: 0)
            try file.synchronize(dataOnly: true)
            try file.punchHole(at: 4000, length: 8392)
            let (data, hole) = (try file.nextData(from: 4096), try file.nextHole(from: 0))
            let sum = try readAll(file, at: 0, 30000).map(Int.init).reduce(0, +)
            return "\(sum) data \(data) hole \(hole) size \(try file.status().size)"
        }
        note("seek past the end") { () throws(Errno) in "\(try open("a").nextData(from: 20000))" }
        done("allocate nothing") { () throws(Errno) in try open("a").allocate(at: 0, length: 0) }
        note("allocate") { () throws(Errno) in
            let file = try open("a")
            try file.allocate(at: 0, length: 1 << 20)
            return "\(try file.status().size)"
        }
    }

    func attributes() {
        let key = Array("user.test".utf8)
        let time = TimeChange.set(Timestamp(seconds: 5, nanoseconds: 6))
        for entry in ["a", "d", "s", "f"] {
            done("set \(entry)") { () throws(Errno) in try root.node(name(entry)).setAttribute(key, [1, 2, 3]) }
            done("set anew \(entry)") { () throws(Errno) in
                try root.node(name(entry)).setAttribute(key, [1], mode: .create)
            }
            note("get \(entry)") { () throws(Errno) in "\(try root.node(name(entry)).attribute(key))" }
            note("list \(entry)") { () throws(Errno) in "\(try root.node(name(entry)).attributeNames())" }
            done("remove \(entry)") { () throws(Errno) in try root.node(name(entry)).removeAttribute(key) }
            done("replace \(entry)") { () throws(Errno) in
                try root.node(name(entry)).setAttribute(key, [1], mode: .replace)
            }
            done("mode \(entry)") { () throws(Errno) in try root.node(name(entry)).setMode(0o4751) }
            done("times \(entry)") { () throws(Errno) in
                try root.node(name(entry)).setTimes(accessed: .keep, modified: time)
                try root.node(name(entry)).setTimes(accessed: time, modified: .keep)
            }
            note("after \(entry)") { () throws(Errno) in
                let status = try root.status(of: name(entry))
                return "\(String(status.mode, radix: 8)) \(status.accessed) \(status.modified)"
            }
        }
    }

    func names() {
        done("link a b") { () throws(Errno) in try root.link(name("a"), to: root, name("b")) }
        done("link d") { () throws(Errno) in try root.link(name("d"), to: root, name("b2")) }
        done("link over") { () throws(Errno) in try root.link(name("a"), to: root, name("b")) }
        note("links") { () throws(Errno) in "\(try root.status(of: name("b")).links)" }
        for (from, to, mode) in [
            ("a", "b", RenameMode.replace), ("a", "d", .noReplace), ("a", "d", .replace), ("d", "a", .replace),
            ("a", "none", .exchange), ("none", "a", .replace), ("a", "d", .exchange), ("a", "d", .exchange),
        ] {
            done("rename \(from) \(to) \(mode)") { () throws(Errno) in
                try root.rename(name(from), to: root, name(to), mode: mode)
            }
            note("names") { () throws(Errno) in try list(root) }
        }
        done("deep") { () throws(Errno) in
            let directory = try root.openDirectory(name("d"))
            try directory.createDirectory(name("e"), mode: 0o755)
            try root.rename(name("b"), to: directory, name("b"))
        }
        done("into itself") { () throws(Errno) in
            try root.rename(name("d"), to: root.openDirectory(name("d")).openDirectory(name("e")), name("x"))
        }
        done("over its ancestor") { () throws(Errno) in
            try root.openDirectory(name("d")).rename(name("e"), to: root, name("d"))
        }
        note("links of d") { () throws(Errno) in "\(try root.status(of: name("d")).links)" }
        done("rmdir full") { () throws(Errno) in try root.removeDirectory(name("d")) }
        done("rmdir a file") { () throws(Errno) in try root.removeDirectory(name("a")) }
        done("unlink a directory") { () throws(Errno) in try root.unlink(name("d")) }
    }

    func handles() {
        note("held after unlink") { () throws(Errno) in
            let node = try root.node(name("a"))
            try root.unlink(name("a"))
            try root.openDirectory(name("d")).unlink(name("b"))
            return "\(try node.status().links) \(try readAll(node.openFile(.readWrite), at: 0, 10))"
        }
        done("create in a removed directory") { () throws(Errno) in
            let outer = try root.openDirectory(name("d"))
            let inner = try outer.openDirectory(name("e"))
            try outer.removeDirectory(name("e"))
            _ = try inner.createFile(name("x"), mode: 0o600)
        }
        done("two locks") { () throws(Errno) in
            let (first, second) = (try root.reopen(), try root.reopen())
            try first.lock(exclusive: false)
            try second.lock(exclusive: false)
            try second.lock(exclusive: true)
        }
        done("lock after they closed") { () throws(Errno) in try root.reopen().lock(exclusive: true) }
        note("a listing goes on after removals") { () throws(Errno) in
            try root.createDirectory(name("many"), mode: 0o755)
            let many = try root.openDirectory(name("many"))
            for number in 0..<100 { _ = try many.createFile(name("file\(number)"), mode: 0o600) }
            var (seen, cookie): (Set<String>, UInt64) = ([], 0)
            while true {
                var batch: [EntryName] = []
                try many.forEachEntry(from: cookie) { entry, next in
                    batch.append(entry.name)
                    cookie = next
                    return batch.count < 7
                }
                if batch.isEmpty { break }
                for entry in batch {
                    seen.insert(entry.description)
                    try many.unlink(entry)
                }
            }
            return "\(seen.count) \(try many.entries().count)"
        }
    }
}
