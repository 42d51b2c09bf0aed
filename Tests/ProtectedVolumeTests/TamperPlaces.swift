// Finds the bytes of stored objects for the tamper matrix, and replaces them by changed ones.

import BackingStore
import Testing
import VolumeFormat

@testable import ProtectedVolume

/// Stored bytes that can be read and replaced behind the volume's back.
indirect enum TamperPlace: Sendable {
    /// A regular file's bytes.
    case file([EntryName], EntryName)
    /// A symlink's target as it is stored.
    case text([EntryName], EntryName)
    /// A symlink's target, decoded.
    case link([EntryName], EntryName)
    /// The decoded part of an entry's name, between a prefix and a suffix.
    case name([EntryName], EntryName, prefix: String, suffix: String)
    /// The decoded part of an attribute's name.
    case attributeName([EntryName], EntryName, [UInt8])
    /// An attribute's stored value.
    case attributeValue([EntryName], EntryName, [UInt8])

    /// The bytes in a store.
    func read(_ root: BackingDirectory) throws -> [UInt8] {
        switch self {
        case .file(let path, let entry):
            let file = try Self.open(path, root).openFile(entry, .readWrite)
            var bytes = [UInt8](repeating: 0, count: Int(try file.status().size))
            var raw = bytes.mutableSpan
            _ = try file.read(into: &raw, at: 0)
            return bytes
        case .text(let path, let entry): return try Self.open(path, root).readSymlink(entry)
        case .link(let path, let entry):
            return try #require(Base64URL.decode(Self.open(path, root).readSymlink(entry)))
        case .name(_, let entry, let prefix, let suffix):
            return try #require(
                Base64URL.decode(Array(entry.bytes.dropFirst(prefix.utf8.count).dropLast(suffix.utf8.count))))
        case .attributeName(_, _, let name): return try #require(Base64URL.decode(Array(name.dropFirst(9))))
        case .attributeValue(let path, let entry, let name):
            return try Self.open(path, root).node(entry).attribute(name)
        }
    }

    /// Puts bytes into places, all at once, so that names can be exchanged.
    ///
    /// - Returns: false where no store could hold them.
    static func write(_ changes: [(place: TamperPlace, bytes: [UInt8])], _ root: BackingDirectory) throws -> Bool {
        var later: [() throws -> Void] = []
        for (number, change) in changes.enumerated() {
            switch change.place {
            case .file(let path, let entry):
                let file = try open(path, root).openFile(entry, .readWrite)
                try file.truncate(to: 0)
                try file.write(change.bytes.span, at: 0)
            case .text(let path, let entry):
                guard !change.bytes.contains(0) else { return false }
                try replace(open(path, root), entry, change.bytes)
            case .link(let path, let entry):
                try replace(open(path, root), entry, Base64URL.encode(change.bytes.span))
            case .name(let path, let entry, let prefix, let suffix):
                let text = Base64URL.encode(change.bytes.span)
                guard !text.isEmpty, let new = EntryName(Array(prefix.utf8) + text + Array(suffix.utf8)) else {
                    return false
                }
                let directory = try open(path, root)
                let waiting = try #require(EntryName(".protectfs.tmp.tamper\(number)"))
                try directory.rename(entry, to: directory, waiting)
                later.append { try directory.rename(waiting, to: directory, new) }
            case .attributeName(let path, let entry, let name):
                let object = try open(path, root).node(entry)
                let value = try object.attribute(name)
                try object.removeAttribute(name)
                let new = Array(name.prefix(9)) + Base64URL.encode(change.bytes.span)
                later.append { try object.setAttribute(new, value) }
            case .attributeValue(let path, let entry, let name):
                try open(path, root).node(entry).setAttribute(name, change.bytes)
            }
        }
        for act in later { try act() }
        return true
    }

    /// Whether it is a name, of which there is only one.
    var isName: Bool {
        switch self {
        case .name, .attributeName: true
        default: false
        }
    }

    static func open(_ path: [EntryName], _ root: BackingDirectory) throws -> BackingDirectory {
        try path.reduce(root) { try $0.openDirectory($1) }
    }

    private static func replace(_ directory: BackingDirectory, _ entry: EntryName, _ target: [UInt8]) throws {
        guard !target.isEmpty else { return try directory.unlink(entry) }
        try directory.unlink(entry)
        try directory.createSymlink(entry, target: target)
    }
}

extension Base64URL {
    static func decode(_ text: [UInt8]) -> [UInt8]? { decode(text.span) }
}
