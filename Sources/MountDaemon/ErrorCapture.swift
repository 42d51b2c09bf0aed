// Captures the standard error of libfuse and fusermount3 while mounting, for our own one-line message.

import CLibrary
import HostSystem

/// Standard error, redirected into a pipe.
final class ErrorCapture {
    private let original: Int32
    private let reading: Int32

    /// Begins. If there are not enough descriptors, nothing is redirected.
    init() {
        original = fcntl(2, F_DUPFD_CLOEXEC, 10)
        var ends: (Int32, Int32) = (-1, -1)
        if var pipe = try? Pipe(), let reading = pipe.reading.take(), let writing = pipe.writing.take() {
            ends = (reading.release(), writing.release())
        }
        reading = ends.0
        guard original >= 0, ends.1 >= 0 else { return }
        // A full pipe must not block the mount, so the rest is lost.
        _ = fcntl(ends.0, F_SETFL, O_NONBLOCK)
        _ = fcntl(ends.1, F_SETFL, O_NONBLOCK)
        dup2(ends.1, 2)
        close(ends.1)
    }

    /// The most bytes that are read.
    private static let longestText = 4096

    /// Ends and gives the first captured line, without the program's name.
    func end() -> String? {
        guard original >= 0, reading >= 0 else { return nil }
        dup2(original, 2)
        close(original)
        defer { close(reading) }
        var buffer = [UInt8](repeating: 0, count: Self.longestText)
        let count = unsafe CLibrary.read(reading, &buffer, buffer.count)
        guard count > 0 else { return nil }
        let line = buffer[..<count].prefix { $0 != UInt8(ascii: "\n") }
        guard line.starts(with: "fuse".utf8), let colon = line.firstIndex(of: UInt8(ascii: ":")) else {
            return String(decoding: line, as: UTF8.self)
        }
        return String(decoding: line[(colon + 1)...].drop { $0 == UInt8(ascii: " ") }, as: UTF8.self)
    }
}
