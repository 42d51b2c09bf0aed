// The error of a call over D-Bus, as the other end or the library names it.

internal import CLibrary
internal import CSystemd
internal import HostSystem

/// A failed call: what the other end answered, or what sd-bus could not do.
package struct DBusError: Error, Sendable, Hashable, CustomStringConvertible {
    /// The name on the wire, such as `org.freedesktop.DBus.Error.ServiceUnknown`.
    package let name: String
    /// One line for a log.
    package let message: String

    /// Makes an error, also one to answer a call with.
    package init(_ name: String, _ message: String = "") {
        self.name = name
        self.message = message
    }

    /// The error of a call of sd-bus that returned the negative errno `result`.
    init(code result: Int32, _ call: String) {
        let isGone = [ENOTCONN, ECONNRESET, ESHUTDOWN, EPIPE].contains(-result)
        let name = isGone ? Self.disconnected : -result == ETIMEDOUT ? Self.timeout : Self.system
        self.init(name, "\(call): \(SystemError.reason(of: -result))")
    }

    /// The name and text of `error`; the error itself stays the caller's to free.
    init?(_ error: sd_bus_error) {
        guard let name = unsafe DBusMessage.text(error.name) else { return nil }
        self.init(name, unsafe DBusMessage.text(error.message) ?? "")
    }

    /// The bus is gone.
    package var isDisconnected: Bool { name == Self.disconnected }

    /// The other end did not answer in time.
    package var isTimeout: Bool { name == Self.timeout }

    /// One line for a log.
    package var description: String { message.isEmpty ? name : "\(message) (\(name))" }

    /// Throws if `result` is negative.
    @discardableResult
    static func check(_ result: Int32, _ call: String) throws(DBusError) -> Int32 {
        guard result >= 0 else { throw DBusError(code: result, call) }
        return result
    }

    private static let disconnected = "org.freedesktop.DBus.Error.Disconnected"
    /// The name that sd-bus gives to ETIMEDOUT (sd-bus-errors(3)).
    private static let timeout = "org.freedesktop.DBus.Error.Timeout"
    private static let system = "org.freedesktop.DBus.Error.Failed"
}

extension DBusError {
    /// No such object.
    package static func unknownObject(_ path: String) -> DBusError {
        DBusError("org.freedesktop.DBus.Error.UnknownObject", "no object at \(path)")
    }
    /// No such interface.
    package static func unknownInterface(_ name: String) -> DBusError {
        DBusError("org.freedesktop.DBus.Error.UnknownInterface", "no interface \(name)")
    }
    /// No such method.
    package static func unknownMethod(_ name: String) -> DBusError {
        DBusError("org.freedesktop.DBus.Error.UnknownMethod", "no method \(name)")
    }
    /// No such property.
    package static func unknownProperty(_ name: String) -> DBusError {
        DBusError("org.freedesktop.DBus.Error.UnknownProperty", "no property \(name)")
    }
    /// The property cannot be set.
    package static func readOnly(_ name: String) -> DBusError {
        DBusError("org.freedesktop.DBus.Error.PropertyReadOnly", "\(name) cannot be set")
    }
    /// Arguments of other types, or values that cannot be used.
    package static func invalidArguments(_ message: String) -> DBusError {
        DBusError("org.freedesktop.DBus.Error.InvalidArgs", message)
    }
    /// What the service does not do, such as an algorithm.
    package static func notSupported(_ message: String) -> DBusError {
        DBusError("org.freedesktop.DBus.Error.NotSupported", message)
    }
}
