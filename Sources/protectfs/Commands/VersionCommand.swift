// `protectfs version`, and the version itself.

import Control
import HostSystem

/// The version of the program; that of the format is in its keybag.
let programVersion = "0.3.0"

extension Command {
    static let version = Command(
        "version", "", "Shows the version.", options: [.json],
        run: { (arguments) throws(CommandFailure) in
            _ = try arguments.operands()
            let fields: [(String, JSONValue)] = [("version", .string(programVersion)), ("format", .integer(1))]
            Output.line(
                arguments.has("json") ? JSONValue.fields(fields).line : "protectfs \(programVersion), volume format 1")
            return .success
        })
}
