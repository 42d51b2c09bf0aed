// One end of a connection: frames of bounded length, each read and written before a deadline.

import CLinuxShim
import Glibc
import HostSystem
import SodiumKit

/// Why a frame could not be had or sent.
enum ChannelError: Error, Equatable {
    /// The other end is gone.
    case closed
    /// The deadline has passed.
    case timedOut
    /// A frame announces more bytes than are accepted.
    case tooLarge
    /// A system call failed.
    case system(SystemError)
}

/// A connected socket. A frame is a u32, little-endian, and as many bytes of JSON.
///
/// Reading belongs to one thread. Frames of several threads go out one after another, so that events can come between
/// replies; who sends an event never waits, whatever the other end does.
final class Channel: Sendable {
    /// The longest frame, in bytes.
    static let maximumFrame = 64 << 10
    /// Bytes that are read at a time without waiting.
    private static let chunkSize = 4096
    /// Most bytes of events that wait for an answer under way to be taken.
    static let maximumWaiting = 256 << 10

    private struct Outgoing {
        /// A thread sends, without the lock; it takes along what has come to wait meanwhile.
        var isSending = false
        var waiting: [UInt8] = []
    }

    private let socket: Descriptor
    private let outgoing = Lock(Outgoing())
    private let sent = Condition()

    init(_ socket: consuming Descriptor) {
        self.socket = socket
    }

    /// The user and process at the other end when it connected; nil when the kernel does not say.
    var peer: (user: UInt32, process: Int32)? {
        var (user, process): (UInt32, Int32) = (0, 0)
        return unsafe pfs_peer(socket.number, &user, &process) == 0 ? (user, process) : nil
    }

    /// The socket, for poll(2) only.
    var number: Int32 { socket.number }

    /// Whether the other end is gone altogether: not one that only sends no more.
    var isAbandoned: Bool {
        var request = pollfd(fd: socket.number, events: 0, revents: 0)
        return unsafe poll(&request, 1, 0) > 0 && request.revents & Int16(POLLHUP | POLLERR) != 0
    }

    /// Ends the connection in both directions; whoever waits in it returns.
    func shutDown() {
        shutdown(socket.number, Int32(SHUT_RDWR))
    }

    /// Lets nothing more come in; an answer that is under way still goes out.
    func endReading() {
        shutdown(socket.number, Int32(SHUT_RD))
    }

    /// The next frame's bytes.
    ///
    /// - Parameters:
    ///   - start: until when its first byte must come, CLOCK_MONOTONIC in nanoseconds; nil: for ever.
    ///   - duration: how long the whole frame may take from then on, in nanoseconds.
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

    /// Fills `bytes` with what comes next; for secrets, which follow their frame and never enter other memory.
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

    /// Takes of a frame what is there, and nothing behind it; never waits.
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

    /// Sends one frame, and `secret` behind it. A failure ends the connection: half a frame may be out.
    func send(_ value: JSONValue, secret: Span<UInt8> = Span(), deadline: UInt64) throws(ChannelError) {
        let frame = Self.frame(value)
        guard begin(until: deadline) else { throw .timedOut }
        do throws(ChannelError) {
            try send(frame.span, deadline: deadline)
            try send(secret, deadline: deadline)
            while let next = nextWaiting() { try send(next.span, deadline: deadline) }
        } catch {
            // Those who wait find a connection that refuses them at once.
            shutDown()
            outgoing.withLock { $0 = Outgoing() }
            sent.broadcast()
            throw error
        }
    }

    /// Becomes the one who sends; false when `deadline` passes first.
    private func begin(until deadline: UInt64) -> Bool {
        outgoing.wait(on: sent, until: deadline) { outgoing in
            guard !outgoing.isSending else { return nil }
            outgoing.isSending = true
            return true
        } ?? false
    }

    /// What has come to wait; nil: nothing, and nobody sends from now on.
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

    /// Sends one frame only if it can be sent whole at once, or behind an answer that is going out just now; else ends the
    /// connection, whose reader is too slow. Never waits.
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
                let put = unsafe Glibc.send(
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

/// A frame of which only the beginning may be there.
struct PartialFrame {
    enum Progress {
        /// The rest is still to come.
        case more
        case whole([UInt8])
        case tooLarge
        case closed
    }

    fileprivate var bytes: [UInt8] = []

    var hasBegun: Bool { !bytes.isEmpty }
    /// Bytes of JSON; 0 until the length is there.
    fileprivate var length: Int { bytes.count < 4 ? 0 : bytes[..<4].reversed().reduce(0) { $0 << 8 | Int($1) } }
    fileprivate var missing: Int { bytes.count < 4 ? 4 - bytes.count : 4 + length - bytes.count }
    fileprivate var content: [UInt8] { Array(bytes.dropFirst(4)) }
}

/// Waits in poll(2); nil when ready.
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
