// `protectfs version`, and the version itself.

import Control
import HostSystem

/// The version of the program. The version of the format is in the keybag.
let programVersion = "0.3.0"

extension Command {
    static let version = Command(
        "version", .other, [], "Shows the version.", options: [.json],
        examples: [.init("protectfs version", "Show the versions of the program and of the volume format.")],
        usesKeys: false,
        run: { (arguments) throws(CommandFailure) in
            let fields: [(String, JSONValue)] = [("version", .string(programVersion)), ("format", .integer(1))]
            Output.line(
                arguments.has("json") ? JSONValue.fields(fields).line : "protectfs \(programVersion), volume format 1")
            return .success
        })
}
