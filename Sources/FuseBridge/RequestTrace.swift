// Writes one line of text for each request of the kernel, for developers: `protectfs mount --foreground --trace`.

internal import CFuse3
internal import CLibrary
internal import CLinuxShim
internal import HostSystem

/// Reads requests and answers as they pass between the kernel and libfuse, so that the trace is complete. It includes requests
/// that are parked, refused by libfuse, or never answered.
///
/// A line has fields: `trace unique=42 op=WRITE node=3 process=711 offset=0 size=12 result=ok bytes=12 us=85`. Contents are
/// never read. Names are shown as a number under a key that is made anew for each mount, so that equal names can be seen to be
/// equal, and not guessed. Layouts: linux/fuse.h.
@safe package final class RequestTrace: Sendable {
    private struct Started: Sendable {
        var text: String
        var operation: Operation
        /// CLOCK_MONOTONIC.
        var time: UInt64
    }
    private let started = Lock<[UInt64: Started]>([:])
    private let showsNames: Bool
    private let write: @Sendable (String) -> Void
    private let key = UInt64.random(in: .min ... .max)

    /// - Parameters:
    ///   - showsNames: lines hold names of files and attributes, and targets of symlinks.
    ///   - write: takes one line, without its end, from any thread.
    package init(showsNames: Bool, write: @escaping @Sendable (String) -> Void) {
        self.showsNames = showsNames
        self.write = write
    }

    /// A request that has been read from the kernel.
    func sawRequest(_ bytes: UnsafeRawBufferPointer) {
        let fields = unsafe Fields(bytes)
        let unique = fields.long(8)
        let operation = Operation(rawValue: fields.word(4))
        let name = operation.map { "\($0)" } ?? "\(fields.word(4))"
        var text = "trace unique=\(unique) op=\(name) node=\(fields.long(16)) process=\(fields.word(32))"
        if let operation { text += describe(fields, operation) }
        guard let operation, operation.isAnswered else { return write(text) }
        started.withLock { $0[unique] = Started(text: text, operation: operation, time: monotonicNanoseconds()) }
    }

    /// An answer that has been written to the kernel. `error` is the error of the write.
    func sawAnswer(_ vectors: UnsafeBufferPointer<iovec>, error: Int32) {
        guard let first = unsafe vectors.first, let base = unsafe first.iov_base else { return }
        let header = unsafe Fields(UnsafeRawBufferPointer(start: base, count: first.iov_len))
        // A notification has no number.
        guard let request = started.withLock({ $0.removeValue(forKey: header.long(8)) }) else { return }
        let code = -Int32(bitPattern: header.word(4))
        var text = request.text + " result=" + (code == 0 ? "ok" : Self.name(of: code))
        if code == 0 {
            let length = max(0, Int(header.word(0)) - Self.answerHeader)
            // The body follows the header, or is the second part.
            if unsafe first.iov_len > Self.answerHeader {
                let body = unsafe UnsafeRawBufferPointer(
                    start: base + Self.answerHeader, count: first.iov_len - Self.answerHeader)
                text += unsafe describe(Fields(body), length, request.operation)
            } else if vectors.count > 1, let second = unsafe vectors[1].iov_base {
                let body = unsafe UnsafeRawBufferPointer(start: second, count: vectors[1].iov_len)
                text += unsafe describe(Fields(body), length, request.operation)
            } else {
                text += unsafe describe(Fields(UnsafeRawBufferPointer(start: nil, count: 0)), length, request.operation)
            }
        }
        if error != 0 { text += " answer=" + Self.name(of: error) }
        write(text + " us=\(nanoseconds(from: request.time, to: monotonicNanoseconds()) / 1000)")
    }

    // MARK: fields

    /// Bytes of `fuse_in_header` and `fuse_out_header`.
    private static let requestHeader = 40
    private static let answerHeader = 16

    private func describe(_ fields: Fields, _ operation: Operation) -> String {
        let body = Self.requestHeader
        func names(_ offset: Int) -> String {
            fields.strings(from: body + offset, count: operation.names).map { " name=" + shown($0) }.joined()
        }
        return switch operation {
        case .FORGET: " count=\(fields.long(body))"
        case .BATCH_FORGET: " nodes=\(fields.word(body))"
        case .LOOKUP, .UNLINK, .RMDIR, .SYMLINK, .REMOVEXATTR: names(0)
        case .MKNOD: " mode=\(octal(fields.word(body)))" + names(16)
        case .MKDIR: " mode=\(octal(fields.word(body)))" + names(8)
        case .RENAME: " target=\(fields.long(body))" + names(8)
        case .RENAME2: " target=\(fields.long(body)) flags=\(hex(fields.word(body + 8)))" + names(16)
        case .LINK: " linked=\(fields.long(body))" + names(8)
        case .CREATE: " flags=\(hex(fields.word(body))) mode=\(octal(fields.word(body + 4)))" + names(16)
        case .OPEN, .OPENDIR: " flags=\(hex(fields.word(body)))"
        case .READ, .WRITE, .READDIR, .READDIRPLUS:
            " offset=\(fields.long(body + 8)) size=\(fields.word(body + 16))"
        case .SETATTR:
            " valid=\(hex(fields.word(body)))" + (fields.word(body) & 8 != 0 ? " size=\(fields.long(body + 16))" : "")
        case .SETXATTR: " size=\(fields.word(body)) flags=\(hex(fields.word(body + 4)))" + names(8)
        case .GETXATTR: " size=\(fields.word(body))" + names(8)
        case .LISTXATTR: " size=\(fields.word(body))"
        case .FSYNC, .FSYNCDIR: " flags=\(hex(fields.word(body + 8)))"
        case .ACCESS: " mask=\(fields.word(body))"
        case .FALLOCATE:
            " offset=\(fields.long(body + 8)) size=\(fields.long(body + 16)) mode=\(hex(fields.word(body + 24)))"
        case .LSEEK: " offset=\(Int64(bitPattern: fields.long(body + 8))) whence=\(fields.word(body + 16))"
        case .COPY_FILE_RANGE:
            " offset=\(fields.long(body + 8)) target=\(fields.long(body + 16)) targetOffset=\(fields.long(body + 32))"
                + " size=\(fields.long(body + 40))"
        case .INTERRUPT: " request=\(fields.long(body))"
        default: ""
        }
    }

    /// The data of an answer, besides success. Offsets in `fuse_entry_out`, `fuse_attr_out`, `fuse_write_out`,
    /// `fuse_lseek_out`.
    private func describe(_ body: Fields, _ length: Int, _ operation: Operation) -> String {
        switch operation {
        case .LOOKUP, .SYMLINK, .MKNOD, .MKDIR, .LINK, .CREATE:
            " child=\(body.long(0))" + (body.long(0) != 0 ? " inode=\(body.long(40))" : "")
        case .GETATTR, .SETATTR: " inode=\(body.long(16))"
        case .WRITE, .COPY_FILE_RANGE: " bytes=\(body.word(0))"
        case .LSEEK: " at=\(body.long(0))"
        case .READ, .READDIR, .READDIRPLUS, .READLINK: " bytes=\(length)"
        default: ""
        }
    }

    private func shown(_ name: [UInt8]) -> String {
        if showsNames {
            // Quotes, control characters and marks of writing direction in a name must not forge fields or lines.
            let scalars = String(decoding: name, as: UTF8.self).unicodeScalars
            return "\"" + scalars.map { $0.escaped(asASCII: true) }.joined() + "\""
        }
        var hasher = Hasher()
        hasher.combine(key)
        hasher.combine(name)
        return "#" + String(UInt32(truncatingIfNeeded: hasher.finalize()), radix: 16)
    }

    private func hex(_ value: UInt32) -> String { "0x" + String(value, radix: 16) }

    private func octal(_ value: UInt32) -> String { "0" + String(value, radix: 8) }

    private static func name(of error: Int32) -> String {
        guard let name = unsafe pfs_errno_name(error) else { return "\(error)" }
        return unsafe String(cString: name)
    }

    /// The kernel's operations by number, with their names in linux/fuse.h as they are printed.
    // swift-format-ignore: AlwaysUseLowerCamelCase
    private enum Operation: UInt32, Sendable {
        case LOOKUP = 1
        case FORGET, GETATTR, SETATTR, READLINK, SYMLINK
        case MKNOD = 8
        case MKDIR, UNLINK, RMDIR, RENAME, LINK, OPEN, READ, WRITE, STATFS, RELEASE
        case FSYNC = 20
        case SETXATTR, GETXATTR, LISTXATTR, REMOVEXATTR, FLUSH, INIT, OPENDIR, READDIR, RELEASEDIR, FSYNCDIR, GETLK
        case SETLK, SETLKW, ACCESS, CREATE, INTERRUPT, BMAP, DESTROY, IOCTL, POLL, NOTIFY_REPLY, BATCH_FORGET, FALLOCATE
        case READDIRPLUS, RENAME2, LSEEK, COPY_FILE_RANGE, SETUPMAPPING, REMOVEMAPPING, SYNCFS, TMPFILE, STATX

        var isAnswered: Bool {
            switch self {
            case .FORGET, .BATCH_FORGET, .INTERRUPT, .NOTIFY_REPLY: false
            default: true
            }
        }

        /// Names in the request's body.
        var names: Int {
            switch self {
            case .RENAME, .RENAME2, .SYMLINK: 2
            default: 1
            }
        }
    }

    /// Numbers and strings of a request or an answer. Missing ones are 0 or empty.
    @safe private struct Fields {
        private let bytes: UnsafeRawBufferPointer

        init(_ bytes: UnsafeRawBufferPointer) { unsafe self.bytes = bytes }

        func word(_ offset: Int) -> UInt32 {
            guard unsafe bytes.count >= offset + 4 else { return 0 }
            return unsafe bytes.loadUnaligned(fromByteOffset: offset, as: UInt32.self)
        }

        func long(_ offset: Int) -> UInt64 {
            guard unsafe bytes.count >= offset + 8 else { return 0 }
            return unsafe bytes.loadUnaligned(fromByteOffset: offset, as: UInt64.self)
        }

        /// `count` strings, each ended by a zero byte.
        func strings(from offset: Int, count: Int) -> [[UInt8]] {
            guard unsafe bytes.count > offset else { return [] }
            return unsafe bytes[offset...].split(separator: 0, maxSplits: count, omittingEmptySubsequences: false)
                .prefix(count).map { unsafe Array($0) }
        }
    }
}
