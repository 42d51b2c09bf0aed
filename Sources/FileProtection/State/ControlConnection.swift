// A connection to a mount's control socket for events. See docs/program/control-protocol.md for the protocol.

import CLibrary
import CLinuxShim
import Dispatch
import PlainFoundation

/// A message of the daemon: an event or an answer to a request.
struct ControlMessage: Decodable {
    var ok: Bool?
    var error: String?
    var state: String?
    var event: String?
    var id: Int64?
    var grace: Double?
}

/// A connected socket that delivers its frames on a queue. All methods are called on that queue.
final class ControlConnection {
    /// The longest frame of the protocol, in bytes.
    private static let longestFrame = 64 << 10
    /// The most bytes of one read.
    private static let partSize = 4096

    private let socket: Int32
    private let source: any DispatchSourceRead
    private let receive: (ControlMessage) -> Void
    private let ended: () -> Void
    private var buffer: [UInt8] = []
    private var isOpen = true

    /// Connects to the socket, or returns the error. The daemon must belong to this user, to root or to `owner`.
    static func open(
        _ path: String, owner: UInt32?, on queue: DispatchQueue, receive: @escaping (ControlMessage) -> Void,
        ended: @escaping () -> Void
    ) throws(ProtectionSystemError) -> ControlConnection {
        ControlConnection(try connect(path, owner: owner), queue, receive, ended)
    }

    /// A connected socket that never waits. The same conditions hold for the daemon.
    private static func connect(_ path: String, owner: UInt32?) throws(ProtectionSystemError) -> Int32 {
        let socket = pfs_unix_socket()
        guard socket >= 0 else { throw .last("socket") }
        do throws(ProtectionSystemError) {
            // The connection never waits. A full backlog fails with EAGAIN.
            _ = fcntl(socket, F_SETFL, O_NONBLOCK)
            let trusted = [geteuid(), 0, owner ?? geteuid()]
            try connect(socket, path, trusted)
            var (user, process): (UInt32, Int32) = (0, 0)
            guard unsafe pfs_peer(socket, &user, &process) == 0, trusted.contains(user) else {
                throw ProtectionSystemError(code: ECONNREFUSED, call: "connect")
            }
        } catch {
            CLibrary.close(socket)
            throw error
        }
        return socket
    }

    /// Sends one request on a connection of its own, and waits for the answer, however long the work takes.
    ///
    /// - Returns: nil if the daemon cannot be reached, or ends the connection without an answer.
    static func ask(_ object: [String: String], _ path: String, owner: UInt32?) -> ControlMessage? {
        guard let frame = frame(object), let socket = try? connect(path, owner: owner) else { return nil }
        defer { CLibrary.close(socket) }
        guard fcntl(socket, F_SETFL, 0) == 0, send(frame, to: socket) else { return nil }
        let handle = FileHandle(fileDescriptor: socket, closeOnDealloc: false)
        while let head = receive(4, from: handle) {
            let length = length(of: Array(head))
            guard length <= longestFrame, let text = receive(length, from: handle),
                let message = try? JSONDecoder().decode(ControlMessage.self, from: text)
            else { return nil }
            // Before the answer the daemon reports progress.
            if message.ok != nil { return message }
        }
        return nil
    }

    private static func send(_ frame: [UInt8], to socket: Int32) -> Bool {
        let sent = unsafe frame.withUnsafeBytes { bytes in
            unsafe CLibrary.send(socket, bytes.baseAddress, bytes.count, Int32(MSG_NOSIGNAL))
        }
        return sent == frame.count
    }

    private static func receive(_ count: Int, from handle: FileHandle) -> Data? {
        var bytes = Data()
        while bytes.count < count {
            guard let part = try? Plain.read(handle, upToCount: count - bytes.count), !part.isEmpty else { return nil }
            bytes += part
        }
        return bytes
    }

    private static func frame(_ object: [String: Any]) -> [UInt8]? {
        guard let text = try? JSONSerialization.data(withJSONObject: object) else { return nil }
        let length = UInt32(text.count)
        return (0..<4).map { UInt8(truncatingIfNeeded: length >> (8 * $0)) } + text
    }

    private static func length(of head: [UInt8]) -> Int { (0..<4).reduce(0) { $0 | Int(head[$1]) << (8 * $1) } }

    private static func connect(
        _ socket: Int32, _ path: String, _ trusted: [UInt32]
    ) throws(ProtectionSystemError) {
        // The path leads through the directory's descriptor, because sun_path holds only 108 bytes.
        let directory = unsafe CLibrary.open(
            (path as NSString).deletingLastPathComponent, pfs_O_PATH | pfs_O_DIRECTORY | pfs_O_NOFOLLOW | O_CLOEXEC)
        guard directory >= 0 else { throw .last("open") }
        defer { CLibrary.close(directory) }
        // In /tmp any user can make such a directory and put a link to another mount's socket into it.
        var status = stat()
        guard unsafe fstat(directory, &status) == 0, trusted.contains(status.st_uid), status.st_mode & 0o022 == 0 else {
            throw ProtectionSystemError(code: ECONNREFUSED, call: "connect")
        }
        let short = "/proc/self/fd/\(directory)/\((path as NSString).lastPathComponent)"
        guard unsafe pfs_unix_connect(socket, short) == 0 else { throw .last("connect") }
    }

    private init(
        _ socket: Int32, _ queue: DispatchQueue, _ receive: @escaping (ControlMessage) -> Void,
        _ ended: @escaping () -> Void
    ) {
        self.socket = socket
        self.receive = receive
        self.ended = ended
        source = DispatchSource.makeReadSource(fileDescriptor: socket, queue: queue)
        source.setEventHandler { [weak self] in self?.read() }
        source.setCancelHandler { CLibrary.close(socket) }
        source.resume()
    }

    deinit { source.cancel() }

    /// Ends the connection. It receives nothing more and does not call `ended`.
    func close() {
        isOpen = false
        source.cancel()
    }

    /// Sends one frame. Frames are few and small, so one that does not fit ends the connection.
    func send(_ object: [String: Any]) {
        guard isOpen, let frame = Self.frame(object) else { return }
        // The dispatch source reports the end of the connection later, because the caller may not be ready for it now.
        if !Self.send(frame, to: socket) { shutdown(socket, Int32(SHUT_RDWR)) }
    }

    private func read() {
        var part = [UInt8](repeating: 0, count: Self.partSize)
        let count = unsafe part.withUnsafeMutableBytes { unsafe CLibrary.read(socket, $0.baseAddress, $0.count) }
        if count < 0, errno == EAGAIN || errno == EINTR { return }
        guard count > 0 else { return end() }
        buffer += part.prefix(count)
        while isOpen, buffer.count >= 4 {
            let length = Self.length(of: Array(buffer[..<4]))
            guard length <= Self.longestFrame else { return end() }
            guard buffer.count >= 4 + length else { return }
            let text = Data(buffer[4..<(4 + length)])
            buffer.removeFirst(4 + length)
            guard let message = try? JSONDecoder().decode(ControlMessage.self, from: text) else { return end() }
            receive(message)
        }
    }

    private func end() {
        guard isOpen else { return }
        close()
        ended()
    }
}
