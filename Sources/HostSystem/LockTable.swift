// The kernel's table of file locks, /proc/locks (proc_locks(5)).

import CLibrary

/// Lookups in the table of file locks.
package enum LockTable {
    /// Whether a file with this inode number has a lease, on any file system.
    package static func hasLease(inode: UInt64) -> Bool {
        entries().contains { $0.kind.elementsEqual("LEASE".utf8) && $0.isOn(inode: inode) }
    }

    /// A process that has taken a flock(2).
    package struct Holder: Sendable, Hashable {
        /// Its number, in the PID namespace of this process.
        package let process: Int32
        /// Its real user; nil if that cannot be seen.
        package let user: UInt32?

        /// Names a process.
        package init(process: Int32, user: UInt32?) {
            self.process = process
            self.user = user
        }
    }

    /// The processes that hold a flock(2) of the file or directory at `path`, as far as they are visible. A process that took it and
    /// has ended, leaving it to a child, is not among them.
    package static func holders(of path: HostPath) -> [Holder] {
        let objects = objects(at: path)
        var found: [Holder] = []
        for entry in entries() where entry.isFlock(ofOneIn: objects) && Processes.exists(entry.process) {
            let holder = Holder(process: entry.process, user: Processes.realUser(of: entry.process))
            if !found.contains(holder) { found.append(holder) }
        }
        return found
    }

    /// The processes that have a descriptor which holds a flock(2) of the file or directory at `path`, also if another process took
    /// it. Without privileges only those of this user are found. Looks at every descriptor of the machine.
    package static func keepers(of path: HostPath) -> [Holder] {
        let objects = objects(at: path)
        let processes = ((try? FileStatus.names(in: HostPath("/proc"))) ?? []).compactMap { Int32($0.description) }
        return processes.filter { process in
            let place = HostPath("/proc/\(process)/fdinfo")
            return ((try? FileStatus.names(in: place)) ?? []).contains { name in
                let lines =
                    (try? readFile(place.appending(bytes: name.bytes)))?.split(separator: UInt8(ascii: "\n")) ?? []
                // As in /proc/locks, behind "lock:" and a tab.
                return lines.contains { line in
                    line.starts(with: "lock:".utf8) && Entry(line.dropFirst(6))?.isFlock(ofOneIn: objects) ?? false
                }
            }
        }.map { Holder(process: $0, user: Processes.realUser(of: $0)) }
    }

    /// The names that an object can have in these tables: MAJOR:MINOR:INODE.
    private static func objects(at path: HostPath) -> [[UInt8]] {
        guard let path = try? path.resolved(), let status = try? FileStatus.read(path) else { return [] }
        var devices = [Device(number: UInt64(status.st_dev))]
        // Btrfs shows another number in st_dev than in the kernel's tables.
        if let mount = try? MountTable.entry(containing: path) {
            devices.append(Device(number: mount.deviceNumber))
        }
        return devices.map { Array("\($0.text):\(status.st_ino)".utf8) }
    }

    /// The process that holds a flock(2) of the file or directory at `path`; nil if there is none, or it is not visible.
    package static func holder(of path: HostPath) -> Int32? { holders(of: path).first?.process }

    /// Whether any process holds a flock(2) of the directory at `path`, visible or not; nil if that cannot be found out.
    package static func isHeld(_ path: HostPath) -> Bool? {
        guard let directory = try? Descriptor(opening: path, O_RDONLY | O_DIRECTORY | O_NONBLOCK) else { return nil }
        // Closing the descriptor gives it back.
        while flock(directory.number, LOCK_EX | LOCK_NB) != 0 {
            if errno != EINTR { return errno == EWOULDBLOCK ? true : nil }
        }
        return false
    }

    /// A device as the table of locks writes it.
    private struct Device {
        let text: String

        /// - Parameter number: in the form of `st_dev` (makedev(3)).
        init(number: UInt64) {
            let (major, minor) = (
                number >> 8 & 0xFFF | number >> 32 & ~0xFFF, number & 0xFF | number >> 12 & 0xFFFF_FF00
            )
            text = "\(Self.hex(major)):\(Self.hex(minor))"
        }

        private static func hex(_ number: UInt64) -> String {
            let digits = String(number, radix: 16)
            return digits.utf8.count < 2 ? "0" + digits : digits
        }
    }

    private struct Entry {
        let kind: ArraySlice<UInt8>
        let process: Int32
        /// MAJOR:MINOR:INODE.
        let object: ArraySlice<UInt8>

        /// Reads a line. Nil for a lock that a process waits for.
        init?(_ line: ArraySlice<UInt8>) {
            // A waiting one has `->` in front of its kind.
            let fields = line.split(separator: UInt8(ascii: " "), maxSplits: 6)
            guard fields.count > 5, !fields[1].elementsEqual("->".utf8) else { return nil }
            (kind, object) = (fields[1], fields[5])
            process = Int32(String(decoding: fields[4], as: UTF8.self)) ?? 0
        }

        func isOn(inode: UInt64) -> Bool {
            let ending = Array(":\(inode)".utf8)
            return object.suffix(ending.count) == ending[...]
        }

        func isFlock(ofOneIn objects: [[UInt8]]) -> Bool {
            kind.elementsEqual("FLOCK".utf8) && objects.contains { object.elementsEqual($0) }
        }
    }

    private static func entries() -> [Entry] {
        guard let table = try? readFile(HostPath("/proc/locks"), limit: 64 << 20) else { return [] }
        return table.split(separator: UInt8(ascii: "\n")).compactMap { Entry($0) }
    }
}
