// Short forms for the reports of --json.

package import Control
package import HostSystem

extension CommandFailure {
    /// What went wrong as a word, and the exit code.
    package func fields(exit: ExitCode? = nil) -> [(String, JSONValue)] {
        [("code", .string(code.word)), ("exit", .integer(Int64((exit ?? code).number)))]
    }
}

extension JSONValue {
    /// An object with its members in this order.
    package static func fields(_ fields: [(String, JSONValue)]) -> JSONValue {
        .object(fields.map { JSONMember($0.0, $0.1) })
    }

    /// A path from the root, or null.
    package static func optional(path: HostPath?) -> JSONValue { path.map { .location($0) } ?? .null }

    /// A path from the root.
    package static func location(_ path: HostPath) -> JSONValue { .path((try? path.absolute()) ?? path) }

    /// Text or null.
    package static func optional(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }
}
