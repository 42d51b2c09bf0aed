// A connection to a message bus: sends messages, and gives those that come to its owner's loop.

internal import CLibrary
internal import CSystemd
package import HostSystem

/// A connection to a bus. One thread uses it.
///
/// It registers nothing with sd-bus and has no callbacks: the owner waits for `pollEntry` and `deadline`, then calls `next` until it
/// gives no message. A connection that is lost is not restored; the owner makes another.
@safe package final class DBusConnection {
    /// Which bus to connect to.
    package enum Address: Sendable, Hashable {
        /// The bus of the login session or user (DBUS_SESSION_BUS_ADDRESS, else the user's runtime directory).
        case session
        /// The bus of the machine (DBUS_SYSTEM_BUS_ADDRESS, else the usual one).
        case system
        /// Another bus, as D-Bus writes addresses: `unix:path=…`.
        case at(String)
    }

    /// What a call over a bus goes to.
    package struct Target: Sendable, Hashable {
        /// The name of a service, well-known or unique.
        package var service: String
        /// The object.
        package var path: String
        /// The group of methods on that object.
        package var interface: String

        /// Names a target.
        package init(_ service: String, _ path: String, _ interface: String) {
            self.service = service
            self.path = path
            self.interface = interface
        }
    }

    /// The bus itself.
    static let bus = Target("org.freedesktop.DBus", "/org/freedesktop/DBus", "org.freedesktop.DBus")

    private let pointer: OpaquePointer
    /// The unique names behind the services that `watch` has named; nil for a service that does not run.
    var owners: [String: String?] = [:]

    /// Connects, and waits until the bus has answered.
    package init(_ address: Address) throws(DBusError) {
        var made: OpaquePointer?
        let result =
            switch address {
            case .session: unsafe sd_bus_open_user(&made)
            case .system: unsafe sd_bus_open_system(&made)
            case .at(let text): unsafe Self.open(text, &made)
            }
        guard result >= 0, let connection = unsafe made else { throw DBusError(code: result, "sd_bus_open") }
        unsafe pointer = connection
        _ = try uniqueName()
    }

    private static func open(_ address: String, _ made: inout OpaquePointer?) -> Int32 {
        var new: OpaquePointer?
        var result = unsafe sd_bus_new(&new)
        if result >= 0 { result = unsafe sd_bus_set_address(new, address) }
        if result >= 0 { result = unsafe sd_bus_set_bus_client(new, 1) }
        if result >= 0 { result = unsafe sd_bus_start(new) }
        if result >= 0 { unsafe made = new } else { unsafe sd_bus_unref(new) }
        return result
    }

    deinit { unsafe sd_bus_close_unref(pointer) }

    /// This connection's name, which the bus gives.
    package func uniqueName() throws(DBusError) -> String {
        var name: UnsafePointer<CChar>?
        try DBusError.check(unsafe sd_bus_get_unique_name(pointer, &name), "sd_bus_get_unique_name")
        return unsafe DBusMessage.text(name) ?? ""
    }

    // MARK: sending

    /// A call without arguments yet.
    package func message(_ target: Target, _ method: String) throws(DBusError) -> DBusMessage {
        var made: OpaquePointer?
        let result = unsafe sd_bus_message_new_method_call(
            pointer, &made, target.service, target.path, target.interface, method)
        return try unsafe Self.made(result, made)
    }

    /// A signal without arguments yet.
    package func signal(_ path: String, _ interface: String, _ member: String) throws(DBusError) -> DBusMessage {
        var made: OpaquePointer?
        return try unsafe Self.made(sd_bus_message_new_signal(pointer, &made, path, interface, member), made)
    }

    /// The answer to a call, without arguments yet.
    package func answer(to call: DBusMessage) throws(DBusError) -> DBusMessage {
        var made: OpaquePointer?
        return try unsafe Self.made(sd_bus_message_new_method_return(call.pointer, &made), made)
    }

    /// Refuses a call.
    package func refuse(_ call: DBusMessage, _ error: DBusError) throws(DBusError) {
        guard call.wantsAnswer else { return }
        var made: OpaquePointer?
        let result = unsafe error.name.withCString { name in
            unsafe error.message.withCString { message in
                var error = unsafe sd_bus_error(name: name, message: message, _need_free: 0)
                return unsafe sd_bus_message_new_method_error(call.pointer, &made, &error)
            }
        }
        try send(try unsafe Self.made(result, made))
    }

    private static func made(_ result: Int32, _ message: OpaquePointer?) throws(DBusError) -> DBusMessage {
        guard result >= 0, let message = unsafe message else { throw DBusError(code: result, "sd_bus_message_new") }
        return unsafe DBusMessage(taking: message)
    }

    /// Sends a message and does not wait. The number of a call comes back in `answers` of its answer.
    @discardableResult
    package func send(_ message: DBusMessage) throws(DBusError) -> UInt64 {
        var number: UInt64 = 0
        try DBusError.check(unsafe sd_bus_send(pointer, message.pointer, &number), "sd_bus_send")
        return number
    }

    /// Sends a call that nobody needs to answer.
    package func sendOnly(_ target: Target, _ method: String, _ arguments: [DBusValue]) throws(DBusError) {
        let message = try message(target, method)
        try message.append(arguments)
        try DBusError.check(
            unsafe sd_bus_message_set_expect_reply(message.pointer, 0), "sd_bus_message_set_expect_reply")
        try send(message)
    }

    /// Sends a call and waits for its answer; other messages wait for `next` meanwhile.
    package func call(_ message: DBusMessage, seconds: Double = 5) throws(DBusError) -> DBusMessage {
        var answer: OpaquePointer?
        var error = unsafe sd_bus_error()
        defer { unsafe sd_bus_error_free(&error) }
        let result = unsafe sd_bus_call(pointer, message.pointer, UInt64(seconds * 1e6), &error, &answer)
        guard result >= 0, let answer = unsafe answer else {
            throw unsafe DBusError(error) ?? DBusError(code: result, "sd_bus_call")
        }
        return unsafe DBusMessage(taking: answer)
    }

    /// Calls a method and waits for its answer.
    @discardableResult
    package func call(
        _ target: Target, _ method: String, _ arguments: [DBusValue] = [], seconds: Double = 5
    ) throws(DBusError) -> DBusMessage {
        let message = try message(target, method)
        try message.append(arguments)
        return try call(message, seconds: seconds)
    }

    /// The property of another end's object.
    package func property(_ target: Target, _ name: String, seconds: Double = 5) throws(DBusError) -> DBusValue {
        let properties = Target(target.service, target.path, DBusInterface.properties)
        let words: [DBusValue] = [.string(target.interface), .string(name)]
        return try call(properties, "Get", words, seconds: seconds).argument().content
    }

    /// Waits until everything has been handed to the bus: before a process ends.
    package func flush() throws(DBusError) {
        try DBusError.check(unsafe sd_bus_flush(pointer), "sd_bus_flush")
    }

    // MARK: receiving

    /// What to wait for with poll(2).
    package var pollEntry: PollEntry {
        PollEntry(
            unsafe sd_bus_get_fd(pointer), events: Int16(truncatingIfNeeded: max(unsafe sd_bus_get_events(pointer), 0)))
    }

    /// When to call `next` even if nothing has come, in nanoseconds of the monotonic clock; 0 is now, nil is never.
    package var deadline: UInt64? {
        var microseconds: UInt64 = 0
        guard unsafe sd_bus_get_timeout(pointer, &microseconds) >= 0, microseconds != .max else { return nil }
        return microseconds.multipliedReportingOverflow(by: 1000).overflow ? nil : microseconds * 1000
    }

    /// The next message, or nil if none is there. Throws if the connection is lost.
    package func next() throws(DBusError) -> DBusMessage? {
        while true {
            var received: OpaquePointer?
            let result = unsafe sd_bus_process(pointer, &received)
            guard try DBusError.check(result, "sd_bus_process") > 0 else { return nil }
            guard let received = unsafe received else { continue }
            let message = unsafe DBusMessage(taking: received)
            // sd-bus makes this message itself, and takes it from nobody.
            if message.isSignal("org.freedesktop.DBus.Local", "Disconnected") {
                throw DBusError(code: -ECONNRESET, "sd_bus_process")
            }
            try note(message)
            return message
        }
    }
}
