// A file descriptor that is closed exactly once.

package import CLibrary
internal import CLinuxShim

/// Owns one open file descriptor and closes it at the end of its life.
package struct Descriptor: ~Copyable, Sendable {
    /// The number, valid as long as this value lives.
    package let number: Int32

    /// Takes over an open descriptor.
    package init(taking number: Int32) { self.number = number }

    /// Another descriptor of the same open file (F_DUPFD_CLOEXEC).
    package init(duplicating other: Int32) throws(SystemError) {
        let result = fcntl(other, F_DUPFD_CLOEXEC, 3)
        guard result >= 0 else { throw .last("fcntl") }
        number = result
    }

    /// open(2), always with O_CLOEXEC.
    package init(opening path: HostPath, _ flags: Int32, mode: mode_t = 0) throws(SystemError) {
        let result = unsafe path.withCString { unsafe open($0, flags | O_CLOEXEC, mode) }
        guard result >= 0 else { throw .last("open", path.description) }
        number = result
    }

    deinit { close(number) }

    /// Gives up ownership without closing.
    package consuming func release() -> Int32 {
        let result = number
        discard self
        return result
    }

    /// fstat(2).
    package func status() throws(SystemError) -> stat {
        var result = stat()
        guard unsafe fstat(number, &result) == 0 else { throw .last("fstat") }
        return result
    }

    /// syncfs(2).
    package func syncFileSystem() throws(SystemError) {
        let result = pfs_syncfs(number)
        guard result == 0 else { throw SystemError(code: -result, call: "syncfs") }
    }

    /// Reads until `buffer` is full or the file ends. Returns the number of bytes.
    ///
    /// - Parameter atOnce: true returns what is there after one read(2).
    package func read(into buffer: inout MutableSpan<UInt8>, atOnce: Bool = false) throws(SystemError) -> Int {
        let (count, code) = unsafe buffer.withUnsafeMutableBytes { memory -> (Int, Int32) in
            var done = 0
            while done < memory.count, done == 0 || !atOnce {
                guard let base = memory.baseAddress else { break }
                let got = unsafe CLibrary.read(number, base + done, memory.count - done)
                if got < 0 {
                    if errno == EINTR { continue }
                    return (done, errno)
                }
                if got == 0 { break }
                done += got
            }
            return (done, 0)
        }
        guard code == 0 else { throw SystemError(code: code, call: "read") }
        return count
    }

    /// Reads to the end of the file, at most `limit` bytes. Not for secrets.
    package func readAll(limit: Int) throws(SystemError) -> [UInt8] {
        var all: [UInt8] = []
        var chunk = [UInt8](repeating: 0, count: min(max(limit, 1), 65536))
        while all.count < limit {
            let want = min(chunk.count, limit - all.count)
            let got = unsafe CLibrary.read(number, &chunk, want)
            if got < 0 {
                if errno == EINTR { continue }
                throw .last("read")
            }
            if got == 0 { break }
            all += chunk[..<got]
        }
        return all
    }

    /// Writes all of `bytes`.
    package func write(_ bytes: Span<UInt8>) throws(SystemError) {
        let code = unsafe bytes.withUnsafeBytes { memory -> Int32 in
            var done = 0
            while done < memory.count {
                guard let base = memory.baseAddress else { break }
                let put = unsafe CLibrary.write(number, base + done, memory.count - done)
                if put < 0 {
                    if errno == EINTR { continue }
                    return errno
                }
                done += put
            }
            return 0
        }
        guard code == 0 else { throw SystemError(code: code, call: "write") }
    }

    /// Writes all of `text` as UTF-8.
    package func write(_ text: String) throws(SystemError) {
        let bytes = Array(text.utf8)
        // The array owns the bytes during the call. UInt8 has no padding.
        try write(bytes.span)
    }
}

/// Reads a small file, at most `limit` bytes. Not for secrets.
package func readFile(_ path: HostPath, limit: Int = 1 << 20) throws(SystemError) -> [UInt8] {
    do throws(SystemError) {
        return try Descriptor(opening: path, O_RDONLY).readAll(limit: limit)
    } catch {
        throw SystemError(code: error.code, call: error.call, subject: path.description)
    }
}

/// Makes the directory and every missing parent, each with `mode` (mkdir(2)).
package func makeDirectories(_ path: HostPath, mode: mode_t = 0o700) throws(SystemError) {
    if unsafe path.withCString({ unsafe mkdir($0, mode) }) == 0 || errno == EEXIST { return }
    guard errno == ENOENT, path.parent != path else { throw .last("mkdir", path.description) }
    try makeDirectories(path.parent, mode: mode)
    guard unsafe path.withCString({ unsafe mkdir($0, mode) }) == 0 || errno == EEXIST else {
        throw .last("mkdir", path.description)
    }
}
