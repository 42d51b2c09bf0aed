// The memory that the machine and every cgroup of this process leave available.

internal import CLibrary

/// Available memory, from /proc/meminfo and the cgroup files of versions 1 and 2.
enum AvailableMemory {
    /// Bytes: the smallest of the machine's available memory and what each cgroup above this process leaves.
    static func bytes() -> UInt64 {
        bytes(readFile: readSmallFile)
    }

    /// The same from any file system, for tests.
    static func bytes(readFile: (String) -> String?) -> UInt64 {
        var result = machine(readFile("/proc/meminfo") ?? "") ?? 1 << 30
        for line in (readFile("/proc/self/cgroup") ?? "").split(separator: "\n") {
            // "hierarchy:controllers:path"; version 2 is hierarchy 0 without controllers.
            let fields = line.split(separator: ":", maxSplits: 2, omittingEmptySubsequences: false)
            guard fields.count == 3, fields[2].hasPrefix("/") else { continue }
            let path = String(fields[2])
            if fields[0] == "0", fields[1].isEmpty {
                for directory in ancestors(of: path, under: "/sys/fs/cgroup") {
                    result = min(result, left(readFile, directory, "memory.max", "memory.current", "inactive_file"))
                }
            } else if fields[1].split(separator: ",").contains("memory") {
                for directory in ancestors(of: path, under: "/sys/fs/cgroup/memory") {
                    result = min(
                        result,
                        left(
                            readFile, directory, "memory.limit_in_bytes", "memory.usage_in_bytes",
                            "total_inactive_file"))
                }
            }
        }
        return result
    }

    private static func machine(_ text: String) -> UInt64? {
        for line in text.split(separator: "\n") where line.hasPrefix("MemAvailable:") {
            let words = line.split(separator: " ")
            guard words.count >= 2, let kibibytes = UInt64(words[1]), kibibytes < 1 << 50 else { return nil }
            return kibibytes * 1024
        }
        return nil
    }

    /// The limit minus the used memory. File pages that can be dropped do not count as used. Without a limit there is no bound.
    private static func left(
        _ readFile: (String) -> String?, _ directory: String, _ limitName: String, _ usageName: String,
        _ inactiveName: String
    ) -> UInt64 {
        guard let limit = number(readFile(directory + "/" + limitName)) else { return .max }
        let usage = number(readFile(directory + "/" + usageName)) ?? 0
        var droppable: UInt64 = 0
        for line in (readFile(directory + "/memory.stat") ?? "").split(separator: "\n") {
            let words = line.split(separator: " ")
            if words.count == 2, words[0] == inactiveName { droppable = UInt64(words[1]) ?? 0 }
        }
        let used = usage > droppable ? usage - droppable : 0
        return limit > used ? limit - used : 0
    }

    private static func number(_ text: String?) -> UInt64? {
        guard let word = text?.split(whereSeparator: { $0 == "\n" || $0 == " " }).first else { return nil }
        return UInt64(word)
    }

    /// The root comes first. Inside a container the path may not exist, and the container's root is then used instead.
    private static func ancestors(of path: String, under root: String) -> [String] {
        var result = [root]
        for component in path.split(separator: "/") where component != ".." {
            result.append((result.last ?? root) + "/" + component)
        }
        return result
    }

    /// A file of at most 64 KiB as text. Nil if it cannot be read.
    static func readSmallFile(_ path: String) -> String? {
        let descriptor = unsafe open(path, O_RDONLY | O_CLOEXEC)
        guard descriptor >= 0 else { return nil }
        defer { close(descriptor) }
        var bytes = [UInt8](repeating: 0, count: 65_536)
        var count = 0
        while count < bytes.count {
            // In bounds: count < bytes.count.
            let got = unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe read(descriptor, buffer.baseAddress.map { unsafe $0 + count }, buffer.count - count)
            }
            guard got > 0 else { break }
            count += got
        }
        return String(decoding: bytes[..<count], as: UTF8.self)
    }
}
