// One message of D-Bus: its header, and reading and writing its arguments step by step.

internal import CSystemd

/// A call, an answer, an error or a signal. It belongs to the thread of its connection.
///
/// sd-bus checks what it reads against the specification of D-Bus: types, lengths, depth, names and UTF-8.
@safe package final class DBusMessage {
    /// What kind of message it is.
    package enum Kind: Sendable { case call, answer, error, signal }
    /// A value with others in it.
    package enum Container: UInt8, Sendable {
        case array = 0x61  // a
        case structure = 0x72  // r
        case entry = 0x65  // e
        case variant = 0x76  // v
    }

    /// That a service has begun or ended.
    package struct OwnerChange: Sendable, Hashable {
        /// Its well-known name.
        package let service: String
        /// Whether a process has the name now.
        package let isRunning: Bool
    }

    /// The most values that `arguments` reads of one message. Nobody sends more who means well.
    static let mostValues = 100_000

    let pointer: OpaquePointer
    /// Set if the bus says with this message that a service which the connection watches has begun, ended or changed hands.
    package internal(set) var change: OwnerChange?
    /// How many values have been read as `DBusValue`.
    var valuesRead = 0

    /// Takes over a reference.
    init(taking pointer: OpaquePointer) { unsafe self.pointer = pointer }

    deinit { unsafe sd_bus_message_unref(pointer) }

    /// The text of a C string; nil for none.
    static func text(_ start: UnsafePointer<CChar>?) -> String? { unsafe start.map { unsafe String(cString: $0) } }

    // MARK: header

    /// What kind of message it is; nil for a kind that D-Bus does not have yet.
    package var kind: Kind? {
        var type: UInt8 = 0
        guard unsafe sd_bus_message_get_type(pointer, &type) >= 0 else { return nil }
        switch Int(type) {
        case Int(SD_BUS_MESSAGE_METHOD_CALL): return .call
        case Int(SD_BUS_MESSAGE_METHOD_RETURN): return .answer
        case Int(SD_BUS_MESSAGE_METHOD_ERROR): return .error
        case Int(SD_BUS_MESSAGE_SIGNAL): return .signal
        default: return nil
        }
    }

    /// The unique name of the sender, which the bus sets.
    package var sender: String { unsafe Self.text(sd_bus_message_get_sender(pointer)) ?? "" }
    /// The object.
    package var path: String { unsafe Self.text(sd_bus_message_get_path(pointer)) ?? "" }
    /// The interface; empty if a call does not name it.
    package var interface: String { unsafe Self.text(sd_bus_message_get_interface(pointer)) ?? "" }
    /// The method or signal.
    package var member: String { unsafe Self.text(sd_bus_message_get_member(pointer)) ?? "" }
    /// The types of the arguments.
    package var signature: String { unsafe Self.text(sd_bus_message_get_signature(pointer, 1)) ?? "" }
    /// The number of the call that it answers.
    package var answers: UInt64? {
        var number: UInt64 = 0
        return unsafe sd_bus_message_get_reply_cookie(pointer, &number) >= 0 ? number : nil
    }
    /// Whether the sender of a call waits for the answer.
    package var wantsAnswer: Bool { unsafe sd_bus_message_get_expect_reply(pointer) > 0 }
    /// The error that the message is; nil for other kinds.
    package var error: DBusError? {
        guard let error = unsafe sd_bus_message_get_error(pointer) else { return nil }
        return unsafe DBusError(error.pointee)
    }

    /// Whether it is this signal.
    package func isSignal(_ interface: String, _ member: String) -> Bool {
        kind == .signal && self.interface == interface && self.member == member
    }

    /// The library overwrites the message's memory when it frees it: for secrets.
    package func markSensitive() throws(DBusError) {
        try DBusError.check(unsafe sd_bus_message_sensitive(pointer), "sd_bus_message_sensitive")
    }

    /// Addresses a signal to one connection instead of everybody.
    package func address(to name: String) throws(DBusError) {
        try DBusError.check(unsafe sd_bus_message_set_destination(pointer, name), "sd_bus_message_set_destination")
    }

    // MARK: reading

    /// The type of the next argument, and of what is in it; nil at the end of a container or of the message.
    func next() throws(DBusError) -> (type: UInt8, contents: String)? {
        var type: CChar = 0
        var contents: UnsafePointer<CChar>?
        let result = unsafe sd_bus_message_peek_type(pointer, &type, &contents)
        guard try DBusError.check(result, "sd_bus_message_peek_type") > 0 else { return nil }
        return (UInt8(bitPattern: type), unsafe Self.text(contents) ?? "")
    }

    /// Whether nothing is left of the container that is open, or of the message.
    package func isAtEnd() throws(DBusError) -> Bool {
        try DBusError.check(unsafe sd_bus_message_at_end(pointer, 0), "sd_bus_message_at_end") > 0
    }

    /// Begins to read a container, whose contents have the given signature.
    package func enter(_ kind: Container, _ contents: String) throws(DBusError) {
        let result = unsafe sd_bus_message_enter_container(pointer, CChar(kind.rawValue), contents)
        guard try DBusError.check(result, "sd_bus_message_enter_container") > 0 else {
            throw .invalidArguments("an argument is missing")
        }
    }

    /// Ends to read a container. Everything in it has been read.
    package func leave() throws(DBusError) {
        try DBusError.check(unsafe sd_bus_message_exit_container(pointer), "sd_bus_message_exit_container")
    }

    /// Reads a value of a type without contents into `value`.
    func read<Basic: BitwiseCopyable>(_ type: UInt8, into value: inout Basic) throws(DBusError) {
        let result = unsafe sd_bus_message_read_basic(pointer, CChar(type), &value)
        guard try DBusError.check(result, "sd_bus_message_read_basic") > 0 else {
            throw .invalidArguments("an argument is missing")
        }
    }

    /// Reads a string, an object path or a signature.
    func readText(_ type: UInt8) throws(DBusError) -> String {
        // The library sets a pointer into the message, which outlives this call.
        var start: UnsafePointer<CChar>?
        let result = unsafe sd_bus_message_read_basic(pointer, CChar(type), &start)
        guard try DBusError.check(result, "sd_bus_message_read_basic") > 0, let text = unsafe Self.text(start) else {
            throw .invalidArguments("an argument is missing")
        }
        return text
    }

    /// Reads an array of bytes in place, in the memory of the message.
    package func withBytes<Result: ~Copyable>(
        _ body: (Span<UInt8>) throws(DBusError) -> Result
    ) throws(DBusError) -> Result {
        var start: UnsafeRawPointer?
        var count = 0
        let result = unsafe sd_bus_message_read_array(pointer, CChar(UInt8(ascii: "y")), &start, &count)
        guard try DBusError.check(result, "sd_bus_message_read_array") > 0 else {
            throw .invalidArguments("an array of bytes is missing")
        }
        // The message keeps the memory as long as it lives, and nobody writes to a message that was received.
        let bytes = unsafe UnsafeBufferPointer(start: start?.assumingMemoryBound(to: UInt8.self), count: count)
        return try unsafe body(bytes.span)
    }

    // MARK: writing

    /// Begins to write a container, whose contents have the given signature.
    package func open(_ kind: Container, _ contents: String) throws(DBusError) {
        let result = unsafe sd_bus_message_open_container(pointer, CChar(kind.rawValue), contents)
        try DBusError.check(result, "sd_bus_message_open_container")
    }

    /// Ends to write a container.
    package func close() throws(DBusError) {
        try DBusError.check(unsafe sd_bus_message_close_container(pointer), "sd_bus_message_close_container")
    }

    /// Writes a value of a type without contents.
    func append<Basic: BitwiseCopyable>(_ type: UInt8, _ value: Basic) throws(DBusError) {
        let result = unsafe withUnsafePointer(to: value) {
            unsafe sd_bus_message_append_basic(pointer, CChar(type), $0)
        }
        try DBusError.check(result, "sd_bus_message_append_basic")
    }

    /// Writes a string, an object path or a signature.
    func appendText(_ type: UInt8, _ text: String) throws(DBusError) {
        guard !text.utf8.contains(0) else { throw .invalidArguments("a text has a zero byte in it") }
        let result = unsafe text.withCString { unsafe sd_bus_message_append_basic(pointer, CChar(type), $0) }
        try DBusError.check(result, "sd_bus_message_append_basic")
    }

    /// Writes an array of bytes, which `fill` sets in the memory of the message.
    package func appendBytes(count: Int, _ fill: (inout MutableSpan<UInt8>) -> Void) throws(DBusError) {
        var start: UnsafeMutableRawPointer?
        let result = unsafe sd_bus_message_append_array_space(pointer, CChar(UInt8(ascii: "y")), count, &start)
        try DBusError.check(result, "sd_bus_message_append_array_space")
        guard count > 0, let bytes = unsafe start?.bindMemory(to: UInt8.self, capacity: count) else { return }
        var span = unsafe MutableSpan(_unsafeStart: bytes, count: count)
        // The library does not clear the memory.
        for index in 0..<count { span[index] = 0 }
        fill(&span)
    }
}
