// A message bus of a test's own, and two ends on it that one thread serves.

import DBus
import Glibc
import HostSystem
import Testing

/// A dbus-daemon that runs as long as this value lives.
final class PrivateBus {
    // In the abstract namespace (unix(7)), so that no file is left.
    private let socket = "unix:abstract=protectfs-test-\(getpid())-\(UInt32.random(in: 0 ... .max))"
    private var daemon: ChildProcess?

    /// Its address.
    var address: DBusConnection.Address { .at(socket) }

    init() throws { try start() }

    /// Starts the daemon, and returns when it listens.
    func start() throws {
        var ready = try Pipe()
        let reading = ready.reading.take()?.release() ?? -1
        let writing = ready.writing.take()?.release() ?? -1
        defer { [reading, writing].forEach { _ = Descriptor(taking: $0) } }
        let words = ["dbus-daemon", "--session", "--nofork", "--nopidfile", "--address=" + socket, "--print-address=3"]
        daemon = try ChildProcess.start(
            HostPath("dbus-daemon"), words.map { Array($0.utf8) }, descriptors: [(3, writing)])
        var entries = [PollEntry(reading)]
        PollEntry.wait(&entries, until: nil)
    }

    /// Ends the daemon.
    func stop() throws {
        if let daemon {
            kill(daemon.id, SIGKILL)
            _ = try daemon.wait()
        }
        daemon = nil
    }

    deinit { try? stop() }
}

/// A client and a server on one bus. The server has the name `org.protectfs.Test`.
final class TwoEnds {
    static let service = "org.protectfs.Test"
    private let bus: PrivateBus
    let client: DBusConnection
    let server: DBusConnection
    /// Called for each message of the server's; the exports answer.
    var exports: DBusExports
    /// Signals that came to the client.
    var signals: [DBusMessage] = []

    init(_ bus: PrivateBus, _ exports: DBusExports) throws {
        self.bus = bus
        client = try DBusConnection(bus.address)
        server = try DBusConnection(bus.address)
        self.exports = exports
        #expect(try server.take(Self.service))
    }

    /// Serves both ends until `isDone`.
    func serve(until isDone: () -> Bool) throws {
        while true {
            while let message = try server.next() { _ = try exports.answer(message, on: server) }
            while let message = try client.next() {
                if message.kind == .signal { signals.append(message) } else { answers.append(message) }
            }
            if isDone() { return }
            var entries = [client.pollEntry, server.pollEntry]
            let deadlines = [client.deadline, server.deadline].compactMap { $0 }
            PollEntry.wait(&entries, until: deadlines.min())
        }
    }

    private var answers: [DBusMessage] = []

    /// Calls the server.
    func call(_ path: String, _ interface: String, _ method: String, _ arguments: [DBusValue]) throws -> DBusMessage {
        let message = try client.message(DBusConnection.Target(Self.service, path, interface), method)
        try message.append(arguments)
        return try call(message)
    }

    func call(_ message: DBusMessage) throws -> DBusMessage {
        let number = try client.send(message)
        var answer: DBusMessage? { answers.first { $0.answers == number } }
        try serve { answer != nil }
        let found = try #require(answer)
        if let error = found.error { throw error }
        return found
    }
}
