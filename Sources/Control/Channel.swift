// One end of a connection. It reads and writes frames of limited length, each before a deadline.

import CLibrary
import CLinuxShim
import HostSystem
import SodiumKit

/// Why a frame could not be received or sent.
enum ChannelError: Error, Equatable {
    /// The other end is gone.
    case closed
    /// The deadline has passed.
    case timedOut
    /// The frame's length exceeds `Channel.maximumFrame`.
    case tooLarge
    /// A system call failed.
    case system(SystemError)
}

/// A connected socket. A frame is a little-endian u32 and that many bytes of JSON.
///
/// Only one thread reads. Several threads may send: their frames go out one after another, and events can come between
/// replies. Sending an event never waits, whatever the peer does.
final class Channel: Sendable {
    /// The longest frame, in bytes.
    static let maximumFrame = 64 << 10
    /// The most bytes per read that does not wait.
    private static let chunkSize = 4096
    /// The most bytes of events that wait until the peer has taken an answer.
    static let maximumWaiting = 256 << 10

    private struct Outgoing {
        /// A thread is sending, without holding the lock. It also sends the frames that have been queued meanwhile.
        var isSending = false
        var waiting: [UInt8] = []
    }

    private let socket: Descriptor
    private let outgoing = Lock(Outgoing())
    private let sent = Condition()

    init(_ socket: consuming Descriptor) {
        self.socket = socket
    }

    /// The user and process that connected (SO_PEERCRED); nil if the kernel does not say.
    var peer: (user: UInt32, process: Int32)? {
        var (user, process): (UInt32, Int32) = (0, 0)
        return unsafe pfs_peer(socket.number, &user, &process) == 0 ? (user, process) : nil
    }

    /// The socket, for poll(2) only.
    var number: Int32 { socket.number }

    /// Whether the peer has closed the connection in both directions. A peer that only sends no more still reads.
    var isAbandoned: Bool {
        var request = pollfd(fd: socket.number, events: 0, revents: 0)
        return unsafe poll(&request, 1, 0) > 0 && request.revents & Int16(POLLHUP | POLLERR) != 0
    }

    /// Ends the connection in both directions. Threads that wait for it return.
    func shutDown() {
        shutdown(socket.number, Int32(SHUT_RDWR))
    }

    /// Receives nothing more. An answer that is being sent is still completed.
    func endReading() {
        shutdown(socket.number, Int32(SHUT_RD))
    }

    /// The next frame's bytes.
    ///
    /// - Parameters:
    ///   - start: the deadline for its first byte, in nanoseconds of CLOCK_MONOTONIC; nil means none.
    ///   - duration: nanoseconds that the rest of the frame may take after its first byte.
    func receive(start: UInt64?, duration: UInt64) throws(ChannelError) -> [UInt8] {
        var prefix = [UInt8](repeating: 0, count: 4)
        try receive(into: &prefix, range: 0..<1, deadline: start)
        let deadline = monotonicNanoseconds() + duration
        try receive(into: &prefix, range: 1..<4, deadline: deadline)
        let length = prefix.reversed().reduce(0) { $0 << 8 | Int($1) }
        guard length <= Self.maximumFrame else { throw .tooLarge }
        var frame = [UInt8](repeating: 0, count: length)
        try receive(into: &frame, range: 0..<length, deadline: deadline)
        return frame
    }

    private func receive(into bytes: inout [UInt8], range: Range<Int>, deadline: UInt64?) throws(ChannelError) {
        var raw = bytes.mutableSpan
        var part = raw._mutatingExtracting(range)
        try receive(into: &part, deadline: deadline)
    }

    /// Fills `bytes` with the next bytes of the connection. A secret, which follows its frame, enters no other memory.
    func receive(into bytes: inout MutableSpan<UInt8>, deadline: UInt64?) throws(ChannelError) {
        let number = socket.number
        let result = unsafe bytes.withUnsafeMutableBytes { memory -> Result<Void, ChannelError> in
            var done = 0
            while done < memory.count {
                guard let base = memory.baseAddress else { break }
                // In bounds: done < count.
                let got = unsafe recv(number, base + done, memory.count - done, Int32(MSG_DONTWAIT))
                if got > 0 {
                    done += got
                } else if got == 0 {
                    return .failure(.closed)
                } else if errno == EAGAIN {
                    if let failure = waitUntilReady(number, POLLIN, deadline) { return .failure(failure) }
                } else if errno != EINTR {
                    return .failure(errno == ECONNRESET ? .closed : .system(.last("recv")))
                }
            }
            return .success(())
        }
        try result.get()
    }

    /// Reads the available bytes of a frame and none after it. Never waits.
    func receive(into partial: inout PartialFrame) -> PartialFrame.Progress {
        var chunk = [UInt8](repeating: 0, count: Self.chunkSize)
        while true {
            let missing = partial.missing
            if missing == 0 { return .whole(partial.content) }
            guard partial.length <= Self.maximumFrame else { return .tooLarge }
            let got = unsafe recv(socket.number, &chunk, min(missing, chunk.count), Int32(MSG_DONTWAIT))
            if got > 0 {
                partial.bytes += chunk[..<got]
            } else if got == 0 {
                return .closed
            } else if errno != EINTR {
                return errno == EAGAIN ? .more : .closed
            }
        }
    }

    /// Sends one frame and `secret` after it. A failure ends the connection, because half a frame may have been sent.
    func send(_ value: JSONValue, secret: Span<UInt8> = Span(), deadline: UInt64) throws(ChannelError) {
        let frame = Self.frame(value)
        guard begin(until: deadline) else { throw .timedOut }
        do throws(ChannelError) {
            try send(frame.span, deadline: deadline)
            try send(secret, deadline: deadline)
            while let next = nextWaiting() { try send(next.span, deadline: deadline) }
        } catch {
            // Waiting senders now fail at once.
            shutDown()
            outgoing.withLock { $0 = Outgoing() }
            sent.broadcast()
            throw error
        }
    }

    /// Makes this thread the sender; false when `deadline` passes first.
    private func begin(until deadline: UInt64) -> Bool {
        outgoing.wait(on: sent, until: deadline) { outgoing in
            guard !outgoing.isSending else { return nil }
            outgoing.isSending = true
            return true
        } ?? false
    }

    /// Takes the queued frames. If there are none, returns nil and frees the place of the sender.
    private func nextWaiting() -> [UInt8]? {
        let next = outgoing.withLock { outgoing -> [UInt8]? in
            guard !outgoing.waiting.isEmpty else {
                outgoing.isSending = false
                return nil
            }
            defer { outgoing.waiting = [] }
            return outgoing.waiting
        }
        if next == nil { sent.broadcast() }
        return next
    }

    /// Sends one frame at once, or queues it behind an answer that is being sent. If neither is possible, the peer
    /// reads too slowly and the connection ends. Never waits.
    func sendAtOnce(_ value: JSONValue) {
        let frame = Self.frame(value)
        let isTaken = outgoing.withLock { outgoing in
            guard outgoing.isSending else { return (try? send(frame.span, deadline: 0)) != nil }
            guard outgoing.waiting.count + frame.count <= Self.maximumWaiting else { return false }
            outgoing.waiting += frame
            return true
        }
        if !isTaken { shutDown() }
    }

    private static func frame(_ value: JSONValue) -> [UInt8] {
        let json = value.serialized()
        let length = UInt32(clamping: json.count)
        return (0..<4).map { UInt8(truncatingIfNeeded: length >> ($0 * 8)) } + json
    }

    private func send(_ bytes: Span<UInt8>, deadline: UInt64) throws(ChannelError) {
        let number = socket.number
        let result = unsafe bytes.withUnsafeBytes { memory -> Result<Void, ChannelError> in
            var done = 0
            while done < memory.count {
                guard let base = memory.baseAddress else { break }
                let put = unsafe CLibrary.send(
                    number, base + done, memory.count - done,
                    Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
                if put >= 0 {
                    done += put
                } else if errno == EAGAIN {
                    if let failure = waitUntilReady(number, POLLOUT, deadline) { return .failure(failure) }
                } else if errno != EINTR {
                    return .failure(errno == EPIPE || errno == ECONNRESET ? .closed : .system(.last("send")))
                }
            }
            return .success(())
        }
        try result.get()
    }
}

/// A frame that may have arrived only in part.
struct PartialFrame {
    enum Progress {
        /// More bytes are missing.
        case more
        case whole([UInt8])
        case tooLarge
        case closed
    }

    fileprivate var bytes: [UInt8] = []

    var hasBegun: Bool { !bytes.isEmpty }
    /// Bytes of JSON; 0 until the length has arrived.
    fileprivate var length: Int { bytes.count < 4 ? 0 : bytes[..<4].reversed().reduce(0) { $0 << 8 | Int($1) } }
    fileprivate var missing: Int { bytes.count < 4 ? 4 - bytes.count : 4 + length - bytes.count }
    fileprivate var content: [UInt8] { Array(bytes.dropFirst(4)) }
}

/// Waits with poll(2). Returns nil when the descriptor is ready.
func waitUntilReady(_ number: Int32, _ events: Int32, _ deadline: UInt64?) -> ChannelError? {
    while true {
        var timeout: Int32 = -1
        if let deadline {
            let now = monotonicNanoseconds()
            guard now < deadline else { return .timedOut }
            timeout = Int32(clamping: (deadline - now) / 1_000_000 + 1)
        }
        var descriptor = pollfd(fd: number, events: Int16(events), revents: 0)
        let result = unsafe poll(&descriptor, 1, timeout)
        if result > 0 { return nil }
        if result < 0, errno != EINTR { return .system(.last("poll")) }
    }
}
