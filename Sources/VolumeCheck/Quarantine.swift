// The lost+found directory: keeps every object that a check moves out of the way, and a log of them.

internal import BackingStore
internal import HostSystem
internal import KeyFiles
internal import ProtectedVolume
internal import VolumeFormat

/// The directory `.protectfs.lost+found`. It has objects under numbers, and a `log` with the origin of each.
/// Thread-safe.
///
/// The log's line is durable before an object moves, and a move is one rename. So an interruption leaves each object at
/// its old or its new place, and at most one superfluous line.
final class Quarantine: Sendable {
    private struct Opened {
        let directory: BackingDirectory
        let log: BackingFile
        var end: UInt64
        var next: UInt64
    }

    private let root: BackingDirectory
    private let opened = Lock<Opened?>(nil)

    init(root: BackingDirectory) {
        self.root = root
    }

    /// Moves the entry `name` here, as durably as the store's sync at the end of the check is (`Check.settle`).
    ///
    /// - Parameter origin: its backing path, for the log.
    /// - Returns: its new backing path.
    func take(_ name: EntryName, from directory: BackingDirectory, origin: [UInt8]) throws(Errno) -> [UInt8] {
        try opened.withLock { (opened: inout Opened?) throws(Errno) -> [UInt8] in
            var here = try reach(opened)
            defer { opened = here }
            while true {
                let target = Self.name(here.next)
                try write("moved", origin, Self.path(target), to: &here)
                do throws(Errno) {
                    try directory.rename(name, to: here.directory, target, mode: .noReplace)
                } catch {
                    guard error == .EEXIST else { throw error }
                    here.next &+= 1
                    continue
                }
                here.next &+= 1
                try Check.settle(here.directory)
                try Check.settle(directory)
                return Self.path(target)
            }
        }
    }

    /// Keeps bytes that the caller then removes from their old place. Durable when it returns.
    func keep(_ bytes: [UInt8], of what: StaticString, origin: [UInt8]) throws(Errno) -> [UInt8] {
        try opened.withLock { (opened: inout Opened?) throws(Errno) -> [UInt8] in
            var here = try reach(opened)
            defer { opened = here }
            while true {
                let target = Self.name(here.next)
                here.next &+= 1
                let file: BackingFile
                do throws(Errno) {
                    file = try here.directory.createFile(target, mode: 0o600)
                } catch {
                    guard error == .EEXIST else { throw error }
                    continue
                }
                try file.giveToOwner(of: root)
                try file.write(bytes.span, at: 0)
                try file.synchronize(dataOnly: false)
                try write("\(what)", origin, Self.path(target), to: &here)
                try here.directory.synchronize()
                return Self.path(target)
            }
        }
    }

    /// Notes a change that does not move the object. Durable when it returns.
    func note(_ what: StaticString, from old: [UInt8], to new: [UInt8]) throws(Errno) {
        try opened.withLock { (opened: inout Opened?) throws(Errno) in
            var here = try reach(opened)
            defer { opened = here }
            try write("\(what)", old, new, to: &here)
        }
    }

    private func reach(_ opened: Opened?) throws(Errno) -> Opened {
        if let opened { return opened }
        do throws(Errno) {
            try root.createDirectory(BackingName.lostAndFound, mode: 0o700)
            try root.node(BackingName.lostAndFound).giveToOwner(of: root)
            try root.synchronize()
        } catch { if error != .EEXIST { throw error } }
        let directory = try root.openDirectory(BackingName.lostAndFound)
        let log = try openLog(directory)
        let end = try Self.mendedEnd(of: log)
        let highest = try directory.entries().compactMap { UInt64(String(decoding: $0.name.bytes, as: UTF8.self)) }
            .max()
        return Opened(directory: directory, log: log, end: end, next: (highest ?? 0) &+ 1)
    }

    private func openLog(_ directory: BackingDirectory) throws(Errno) -> BackingFile {
        let name = BackingName.known(Array("log".utf8))
        do throws(Errno) {
            let log = try directory.createFile(name, mode: 0o600)
            try log.giveToOwner(of: root)
            try directory.synchronize()
            return log
        } catch {
            guard error == .EEXIST else { throw error }
            return try directory.openFile(name, .readWrite)
        }
    }

    /// The position of the next line. If the last line is incomplete, a newline comes first.
    private static func mendedEnd(of log: BackingFile) throws(Errno) -> UInt64 {
        let end = try log.status().size
        guard end > 0 else { return 0 }
        var last: [UInt8] = [0]
        var bytes = last.mutableSpan
        _ = try log.read(into: &bytes, at: end - 1)
        if last[0] == UInt8(ascii: "\n") { return end }
        try log.write([UInt8(ascii: "\n")].span, at: end)
        return end + 1
    }

    /// Writes one line: the action, the old path and the new path, separated by tabs.
    private func write(_ what: String, _ old: [UInt8], _ new: [UInt8], to here: inout Opened) throws(Errno) {
        let newline = [UInt8(ascii: "\n")]
        let tab = [UInt8(ascii: "\t")]
        let line = Array(what.utf8) + tab + Self.escaped(old) + tab + Self.escaped(new) + newline
        try here.log.write(line.span, at: here.end)
        try here.log.synchronize(dataOnly: false)
        here.end += UInt64(line.count)
    }

    private static func name(_ number: UInt64) -> EntryName { BackingName.known(Array("\(number)".utf8)) }

    private static func path(_ name: EntryName) -> [UInt8] {
        Array(BackingName.lostAndFound.bytes) + [UInt8(ascii: "/")] + Array(name.bytes)
    }

    /// Control characters and backslashes as `\ooo`.
    static func escaped(_ path: [UInt8]) -> [UInt8] {
        var text: [UInt8] = []
        for byte in path {
            if byte >= 0x20, byte != 0x7F, byte != UInt8(ascii: "\\") {
                text.append(byte)
                continue
            }
            let octal = String(byte, radix: 8)
            text += Array(("\\" + String(repeating: "0", count: 3 - octal.count) + octal).utf8)
        }
        return text
    }
}
