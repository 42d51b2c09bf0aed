// What the kernel says of other processes (proc(5)).

import Glibc

/// Facts of processes that this process may see.
package enum Processes {
    /// The name of a process or thread, without characters that change a terminal; nil if it cannot be seen.
    package static func name(of process: Int32) -> String? {
        guard process > 0, let bytes = try? readFile(HostPath("/proc/\(process)/comm")) else { return nil }
        let text = String(decoding: bytes.prefix { $0 != 10 }, as: UTF8.self)
        return text.filter { $0.isASCII && !$0.isNewline && $0 != "\u{1b}" }
    }

    /// The inode of a namespace of a process, which names it as long as the process lives; nil if it cannot be seen.
    static func namespace(_ kind: String, of process: String) -> ino_t? {
        try? Descriptor(opening: HostPath("/proc/\(process)/ns/\(kind)"), O_RDONLY).status().st_ino
    }
}
