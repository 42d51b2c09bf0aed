// What the kernel says of other processes (proc(5)).

import CLibrary

/// Facts of processes that this process may see.
package enum Processes {
    /// The path of this program's file. Starting /proc/self/exe itself would give the daemon the name "exe".
    package static func ownProgram() throws(SystemError) -> HostPath {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = unsafe readlink("/proc/self/exe", &buffer, buffer.count)
        guard count > 0 else { throw .last("readlink", "/proc/self/exe") }
        return HostPath(bytes: buffer[..<count].map { UInt8(bitPattern: $0) })
    }

    /// The name of a process or thread, without characters that change a terminal; nil if it cannot be seen.
    package static func name(of process: Int32) -> String? {
        guard process > 0, let bytes = try? readFile(HostPath("/proc/\(process)/comm")) else { return nil }
        let text = String(decoding: bytes.prefix { $0 != 10 }, as: UTF8.self)
        return text.filter { $0.isASCII && !$0.isNewline && $0 != "\u{1b}" }
    }

    /// Whether a process has this number, of any user.
    static func exists(_ process: Int32) -> Bool { process > 0 && (kill(process, 0) == 0 || errno != ESRCH) }

    /// The real user of a process; nil if it cannot be seen. A program that has raised its rights (set-user-ID) keeps that of the user
    /// who started it.
    package static func realUser(of process: Int32) -> UInt32? {
        guard process > 0, let bytes = try? readFile(HostPath("/proc/\(process)/status"), limit: 64 << 10) else {
            return nil
        }
        let line = bytes.split(separator: UInt8(ascii: "\n")).first { $0.starts(with: "Uid:".utf8) }
        let numbers = line?.dropFirst(4).split { $0 == UInt8(ascii: "\t") || $0 == UInt8(ascii: " ") }
        return numbers?.first.flatMap { UInt32(String(decoding: $0, as: UTF8.self)) }
    }

    /// The processes of a session that a process has started, directly or through others; if the process leads the session, all
    /// of the session.
    static func started(by process: Int32, in session: Int32) -> [Int32] {
        var parents: [Int32: Int32] = [:]
        for name in (try? FileStatus.names(in: HostPath("/proc"))) ?? [] {
            guard let id = Int32(String(decoding: name.bytes, as: UTF8.self)), id != process, getsid(id) == session,
                let parent = parent(of: id)
            else { continue }
            parents[id] = parent
        }
        if session == process { return Array(parents.keys) }
        return parents.keys.filter { id in
            var ancestor = id
            // Numbers that are used again could make a circle.
            for _ in 0...parents.count {
                guard let parent = parents[ancestor] else { return false }
                if parent == process { return true }
                ancestor = parent
            }
            return false
        }
    }

    /// The parent of a process; nil if it cannot be seen.
    static func parent(of process: Int32) -> Int32? {
        guard let bytes = try? readFile(HostPath("/proc/\(process)/stat")),
            // The name before the last bracket may have any characters. State and parent follow.
            let end = bytes.lastIndex(of: UInt8(ascii: ")"))
        else { return nil }
        let fields = bytes[(end + 1)...].split(separator: UInt8(ascii: " "))
        return fields.count > 1 ? Int32(String(decoding: fields[1], as: UTF8.self)) : nil
    }

    /// The processes that have started this one, directly or through others.
    package static var ancestors: Set<Int32> {
        var found: Set<Int32> = []
        var process = getppid()
        while process > 1, found.insert(process).inserted { process = parent(of: process) ?? 0 }
        return found
    }

    /// The inode of a namespace of a process, which names it as long as the process lives; nil if it cannot be seen.
    static func namespace(_ kind: String, of process: String) -> ino_t? {
        try? Descriptor(opening: HostPath("/proc/\(process)/ns/\(kind)"), O_RDONLY).status().st_ino
    }
}
