// The kernel's table of mounts, read from /proc/self/mountinfo (proc_pid_mountinfo(5)).

import CLibrary

/// One line of mountinfo.
package struct MountEntry: Sendable, Hashable {
    /// Device numbers of the mounted file system.
    package let major: UInt32
    /// Device numbers of the mounted file system.
    package let minor: UInt32
    /// The path in the file system that is mounted there: `/`, or a directory of it for a bind mount.
    package let root: HostPath
    /// The absolute path of the mount point.
    package let mountPoint: HostPath
    /// Per-mount options.
    package let options: String
    /// The file system's type, such as `fuse.protectfs`.
    package let type: String
    /// The mounted device or directory. For protectfs it is the volume's path as typed, made absolute.
    package let source: HostPath
    /// Per-file-system options.
    package let superOptions: String

    /// "MAJOR:MINOR".
    package var device: String { "\(major):\(minor)" }

    /// The device numbers in the form of `st_dev` (makedev(3)).
    package var deviceNumber: UInt64 {
        let (major, minor) = (UInt64(major), UInt64(minor))
        return (major & ~0xFFF) << 32 | (major & 0xFFF) << 8 | (minor & ~0xFF) << 12 | minor & 0xFF
    }

    /// True for a mount of this program.
    package var isProtectfs: Bool { type == "fuse.protectfs" }

    /// The user who owns the mount (option `user_id`); nil if the table does not say.
    package var owner: UInt32? { number(of: "user_id") }

    /// A number in `superOptions`, such as `user_id`.
    package func number(of option: String) -> UInt32? {
        for word in superOptions.split(separator: ",") {
            let parts = word.split(separator: "=", maxSplits: 1)
            if parts.count == 2, parts[0] == option { return UInt32(parts[1]) }
        }
        return nil
    }
}

/// Waits for changes of the mount table (poll(2) on proc_pid_mountinfo(5)).
package struct MountTableWatch: ~Copyable, Sendable {
    private let table: Descriptor

    /// Begins to watch. Later changes are not missed.
    package init() throws(SystemError) {
        table = try Descriptor(opening: HostPath("/proc/self/mountinfo"), O_RDONLY)
    }

    /// Waits for a change; false if waiting fails.
    package borrowing func wait() -> Bool {
        var change = pollfd(fd: table.number, events: Int16(POLLPRI), revents: 0)
        while true {
            let result = unsafe poll(&change, 1, -1)
            if result > 0 { return change.revents & Int16(POLLNVAL) == 0 }
            if result < 0, errno != EINTR { return false }
        }
    }
}

/// The mounts that this process sees.
package enum MountTable {
    /// All mounts, oldest first. If several have the same mount point, the last one hides the others.
    package static func read() throws(SystemError) -> [MountEntry] {
        parse(try readFile(HostPath("/proc/self/mountinfo"), limit: 64 << 20))
    }

    /// The mounts of one file system, oldest first. Parses no other line, because a machine may have thousands of mounts.
    ///
    /// - Parameter device: "MAJOR:MINOR".
    package static func entries(of device: String) throws(SystemError) -> [MountEntry] {
        let table = try readFile(HostPath("/proc/self/mountinfo"), limit: 64 << 20)
        return lines(of: device, in: table).compactMap(entry(parsing:))
    }

    /// The visible mount whose mount point is this absolute path.
    package static func entry(at path: HostPath) throws(SystemError) -> MountEntry? {
        try read().last { $0.mountPoint == path }
    }

    /// The mount that contains a resolved absolute path.
    package static func entry(containing path: HostPath) throws(SystemError) -> MountEntry? {
        var best: MountEntry?
        for entry in try read() where path.isInside(entry.mountPoint) {
            if entry.mountPoint.bytes.count >= best?.mountPoint.bytes.count ?? 0 { best = entry }
        }
        return best
    }

    /// The processes of other mount namespaces in which a file system is mounted, as far as this process may see.
    ///
    /// - Parameter device: "MAJOR:MINOR".
    package static func processesElsewhere(with device: String) -> [Int32] {
        let own = Processes.namespace("mnt", of: "self")
        let numbers = ((try? FileStatus.names(in: HostPath("/proc"))) ?? []).compactMap { Int32($0.description) }
        return numbers.sorted().filter { process in
            guard Processes.namespace("mnt", of: "\(process)") != own,
                let table = try? readFile(HostPath("/proc/\(process)/mountinfo"), limit: 64 << 20)
            else { return false }
            return parse(table).contains { $0.device == device }
        }
    }

    /// Changes the flags of a mount and of its file system to exactly `words` (mount(2), MS_REMOUNT). Words without a flag do
    /// not count.
    package static func remount(_ path: HostPath, _ words: Set<String>) throws(SystemError) {
        // The constants have another type in glibc 2.37 and later.
        let known: [String: UInt] = [
            "ro": .init(MS_RDONLY), "nosuid": .init(MS_NOSUID), "nodev": .init(MS_NODEV), "noexec": .init(MS_NOEXEC),
            "noatime": .init(MS_NOATIME), "nodiratime": .init(MS_NODIRATIME), "relatime": .init(MS_RELATIME),
            "strictatime": .init(MS_STRICTATIME), "sync": .init(MS_SYNCHRONOUS), "dirsync": .init(MS_DIRSYNC),
        ]
        let flags = words.compactMap { known[$0] }.reduce(.init(MS_REMOUNT), |)
        guard unsafe path.withCString({ unsafe mount("none", $0, nil, flags, nil) }) == 0 else {
            throw .last("mount", path.description)
        }
    }

    /// Parses mountinfo and skips lines that it does not understand.
    static func parse(_ bytes: [UInt8]) -> [MountEntry] {
        bytes.split(separator: UInt8(ascii: "\n")).compactMap(entry(parsing:))
    }

    /// The lines whose third field, the device numbers, is this text.
    static func lines(of device: String, in table: [UInt8]) -> [ArraySlice<UInt8>] {
        let field = Array(" \(device) ".utf8)
        var found: [ArraySlice<UInt8>] = []
        var start = 0
        while start < table.count {
            let end = table[start...].firstIndex(of: UInt8(ascii: "\n")) ?? table.count
            // The fields before it are numbers, of the mount and of its parent.
            if let first = table[start..<end].firstIndex(of: UInt8(ascii: " ")),
                let second = table[(first + 1)..<end].firstIndex(of: UInt8(ascii: " ")),
                table[second..<end].starts(with: field)
            {
                found.append(table[start..<end])
            }
            start = end + 1
        }
        return found
    }

    private static func entry(parsing line: ArraySlice<UInt8>) -> MountEntry? {
        let fields = line.split(separator: UInt8(ascii: " "), omittingEmptySubsequences: false)
        guard fields.count >= 10, let dash = fields[6...].firstIndex(of: [UInt8(ascii: "-")]),
            fields.count >= dash + 4
        else { return nil }
        let device = String(decoding: fields[2], as: UTF8.self).split(separator: ":")
        guard device.count == 2, let major = UInt32(device[0]), let minor = UInt32(device[1]) else { return nil }
        return MountEntry(
            major: major, minor: minor, root: HostPath(bytes: unescape(fields[3])),
            mountPoint: HostPath(bytes: unescape(fields[4])),
            options: String(decoding: fields[5], as: UTF8.self),
            type: String(decoding: unescape(fields[dash + 1]), as: UTF8.self),
            source: HostPath(bytes: unescape(fields[dash + 2])),
            superOptions: String(decoding: unescape(fields[dash + 3]), as: UTF8.self))
    }

    /// Decodes `\ooo`, with which the kernel writes space, tab, newline, backslash and `#`.
    package static func unescape(_ field: ArraySlice<UInt8>) -> [UInt8] {
        var result: [UInt8] = []
        var index = field.startIndex
        while index < field.endIndex {
            if field[index] == UInt8(ascii: "\\"), index + 3 < field.endIndex {
                let digits = field[(index + 1)...(index + 3)].map { $0 &- UInt8(ascii: "0") }
                if digits.allSatisfy({ $0 < 8 }), digits[0] < 4 {
                    result.append(digits[0] << 6 | digits[1] << 3 | digits[2])
                    index += 4
                    continue
                }
            }
            result.append(field[index])
            index += 1
        }
        return result
    }
}
