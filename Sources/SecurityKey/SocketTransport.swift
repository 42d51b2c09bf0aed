// A security key behind a Unix socket: reports of 64 bytes in both directions, as a USB key exchanges them.

internal import CFido2
internal import CLibrary
internal import HostSystem

/// Connects libfido2 with a socket.
///
/// The other end is a security key in software, or carries the reports to a key on another machine. libfido2 speaks CTAPHID
/// as over USB, so nothing of the protocol is different. Whoever answers at the socket gets what a key gets: the salt, and the
/// PIN in encrypted form. It gives what a key gives, which opens nothing unless the slot was made with it.
enum SocketTransport {
    /// Bytes of a report. libfido2 puts the number of the report before those that it writes.
    private static let report = 64

    /// The functions for `fido_dev_set_io_functions`.
    static var functions: pfs_fido_io {
        unsafe pfs_fido_io(
            open: { path in
                guard let path = unsafe path, let number = unsafe SocketTransport.connected(path) else { return nil }
                // A descriptor as an address that nothing reads; 0 would mean a failure.
                return unsafe UnsafeMutableRawPointer(bitPattern: Int(number) + 1)
            },
            close: { handle in _ = close(unsafe SocketTransport.descriptor(handle)) },
            read: { handle, buffer, length, milliseconds in
                guard let buffer = unsafe buffer, length >= SocketTransport.report else { return -1 }
                return unsafe SocketTransport.receive(SocketTransport.descriptor(handle), buffer, milliseconds)
                    ? Int32(SocketTransport.report) : -1
            },
            write: { handle, buffer, length in
                guard let buffer = unsafe buffer, length == SocketTransport.report + 1 else { return -1 }
                return unsafe SocketTransport.sendAll(SocketTransport.descriptor(handle), buffer + 1)
                    ? Int32(length) : -1
            })
    }

    private static func descriptor(_ handle: UnsafeMutableRawPointer?) -> Int32 { Int32(Int(bitPattern: handle) - 1) }

    private static func connected(_ path: UnsafePointer<CChar>) -> Int32? {
        var address = sockaddr_un()
        address.sun_family = sa_family_t(AF_UNIX)
        let count = unsafe strlen(path)
        let fits = unsafe withUnsafeMutableBytes(of: &address.sun_path) { place in
            guard count > 0, count < place.count else { return false }
            unsafe place.copyMemory(from: UnsafeRawBufferPointer(start: path, count: count))
            return true
        }
        guard fits else { return nil }
        let number = socket(
            AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0)
        guard number >= 0 else { return nil }
        let result = unsafe withUnsafePointer(to: &address) { pointer in
            unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
                unsafe connect(number, pointer, socklen_t(MemoryLayout<sockaddr_un>.size))
            }
        }
        guard result == 0 else {
            _ = close(number)
            return nil
        }
        return number
    }

    /// Reads one report. A negative time waits without end, as poll(2) does; libfido2 gets a time for every request.
    private static func receive(_ number: Int32, _ buffer: UnsafeMutablePointer<UInt8>, _ milliseconds: Int32) -> Bool {
        let deadline = milliseconds < 0 ? nil : monotonicNanoseconds() + UInt64(milliseconds) * 1_000_000
        var done = 0
        while done < report {
            guard wait(number, Int16(POLLIN), until: deadline) else { return false }
            let got = unsafe recv(number, buffer + done, report - done, 0)
            if got < 0, errno == EINTR || errno == EAGAIN { continue }
            guard got > 0 else { return false }
            done += got
        }
        return true
    }

    /// How long the other end may take to read a report, in nanoseconds.
    private static let patience: UInt64 = 5_000_000_000

    private static func sendAll(_ number: Int32, _ bytes: UnsafePointer<UInt8>) -> Bool {
        let deadline = monotonicNanoseconds() + patience
        var done = 0
        while done < report {
            let sent = unsafe send(number, bytes + done, report - done, Int32(MSG_NOSIGNAL))
            if sent < 0, errno == EINTR { continue }
            if sent < 0, errno == EAGAIN {
                guard wait(number, Int16(POLLOUT), until: deadline) else { return false }
                continue
            }
            guard sent > 0 else { return false }
            done += sent
        }
        return true
    }

    /// Waits for an event of the socket. False if the time is up.
    private static func wait(_ number: Int32, _ events: Int16, until deadline: UInt64?) -> Bool {
        while true {
            var left: Int32 = -1
            if let deadline {
                let now = monotonicNanoseconds()
                guard now < deadline else { return false }
                left = Int32(clamping: (deadline - now) / 1_000_000 + 1)
            }
            var entry = pollfd(fd: number, events: events, revents: 0)
            let count = unsafe poll(&entry, 1, left)
            if count > 0 { return true }
            if count < 0, errno != EINTR { return false }
        }
    }
}
