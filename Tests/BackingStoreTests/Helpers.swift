// Helpers that the tests of this module share.

import BackingStore
import Glibc
import HostSystem
import Testing

/// A name that is known to be good.
func name(_ text: String) -> EntryName {
    guard let name = EntryName(text) else { fatalError("not a name: \(text)") }
    return name
}

/// Up to `count` bytes of a file from `offset`.
func readAll(_ file: BackingFile, at offset: UInt64, _ count: Int) throws(Errno) -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    var raw = bytes.mutableSpan
    let length = try file.read(into: &raw, at: offset)
    return Array(bytes.prefix(length))
}

/// Writes an array.
func writeAll(_ file: BackingFile, _ bytes: [UInt8], at offset: UInt64) throws(Errno) {
    try file.write(bytes.span, at: offset)
}

/// A directory of the host that is removed with its last reference.
final class TemporaryDirectory {
    let path: String
    let directory: HostDirectory

    init() throws {
        var template = Array("/tmp/protectfs-test.XXXXXX".utf8CString)
        guard unsafe mkdtemp(&template) != nil else { throw Errno(rawValue: errno) }
        path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        directory = try HostDirectory.open(path: path)
    }

    deinit {
        Self.empty(directory)
        unsafe rmdir(path)
    }

    private static func empty(_ directory: BackingDirectory) {
        for entry in (try? directory.entries()) ?? [] {
            if let inner = try? directory.openDirectory(entry.name) { empty(inner) }
            try? directory.unlink(entry.name)
            try? directory.removeDirectory(entry.name)
        }
    }
}
