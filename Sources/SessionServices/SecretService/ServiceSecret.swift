// Moves a secret between a message of the bus and locked memory (the structure Secret of the Secret Service).

import DBus
import SecretStore
import SodiumKit

/// The structure `(oayays)`: session, parameters of the session's cipher, secret, media type.
enum ServiceSecret {
    /// Its D-Bus signature: session, parameters, value, content type.
    static let signature = "(oayays)"
    private static let members = "oayays"

    /// Reads the next argument of a call. The session must be the sender's.
    static func read(
        _ call: DBusMessage, _ body: (borrowing SecretBytes, _ contentType: String) throws(DBusError) -> Void
    ) throws(DBusError) {
        try call.enter(.structure, members)
        try checkSession(try call.argument().text, of: call.sender)
        // A plain session has no parameters. Some programs send some.
        try call.withBytes { _ in }
        let secret = try call.withBytes { bytes throws(DBusError) -> SecretBytes in
            // Before it takes locked memory, which is scarce.
            guard bytes.count <= SecretStore.largestSecret else { throw DBusError(SecretError.tooLong) }
            do throws(SodiumError) { return try SecretBytes(copying: bytes) } catch {
                throw DBusError(SecretError.memory(error))
            }
        }
        let contentType = try call.argument().text ?? ""
        try call.leave()
        try body(secret, contentType)
    }

    /// Writes a secret to an answer.
    static func write(
        _ secret: borrowing SecretBytes, of item: SecretItem, to answer: DBusMessage, session: ServicePath
    ) throws(DBusError) {
        try answer.open(.structure, members)
        try answer.append(.path(session.text))
        try answer.appendBytes(count: 0) { _ in }
        try secret.withBytes { bytes throws(DBusError) in
            try answer.appendBytes(count: bytes.count) { span in
                for index in bytes.indices { span[index] = bytes[index] }
            }
        }
        try answer.append(.string(item.contentType))
        try answer.close()
    }

    /// Refuses a session that is not the client's own.
    static func checkSession(_ path: String?, of client: String) throws(DBusError) {
        guard path == ServicePath.session(of: client).text else { throw .noSession }
    }
}
