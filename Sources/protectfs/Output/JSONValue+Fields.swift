// Short forms for the reports of --json.

import Control

extension JSONValue {
    /// An object with its members in this order.
    static func fields(_ fields: [(String, JSONValue)]) -> JSONValue {
        .object(fields.map { JSONMember($0.0, $0.1) })
    }

    /// Text or null.
    static func optional(_ text: String?) -> JSONValue { text.map { .string($0) } ?? .null }
}
