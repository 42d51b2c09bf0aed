// `protectfs config`: checks the configuration files, and shows what is in force.

import CommandSupport
import Control
import HostSystem
import VolumeAccess

extension Command {
    static let configuration = Command(
        "config", .maintenance, [], "Checks the configuration files, and shows what is in force.",
        details: """
            The files are \(SystemPaths.systemConfiguration) of the administrator and ~/.config/protectfs/config of the user.
            They have defaults of init, passphrase, mount and lock, and rules that limit them. The command line is stronger than
            the user's defaults, and these are stronger than the system's. The rules of both files hold, for root too.
            """,
        options: [.json],
        examples: [.init("protectfs config", "Show each setting and the file that it is from.")], usesKeys: false,
        run: { (arguments) throws(CommandFailure) in
            let policy = try Policy.read()
            let inForce = policy.settings.filter {
                $0.key.isRule || policy.setting($0.key, at: $0.mountPoint)?.place == $0.place
            }
            if arguments.has("json") {
                let settings = ConfigurationKey.allCases.flatMap { key in inForce.filter { $0.key == key } }
                let files = ConfigurationFile.all.map { file in
                    JSONValue.fields([("file", .location(file.path)), ("exists", .bool(file.exists))])
                }
                let fields: [(String, JSONValue)] = [
                    ("files", .array(files)), ("settings", .array(settings.map(json))),
                ]
                Output.line(JSONValue.fields(fields).line)
                return .success
            }
            for file in ConfigurationFile.all {
                Output.line("\(file.path): \(file.exists ? "used" : "does not exist")")
            }
            if inForce.isEmpty { return .success }
            var table = Table("KEY", "VALUE", "LINE", "FILE")
            for key in ConfigurationKey.allCases {
                for setting in inForce where setting.key == key {
                    table.add(key.rawValue, setting.text, "\(setting.line.number)", setting.file.description)
                }
            }
            Output.print("\n" + table.text)
            return .success
        })

    private static func json(_ setting: Setting) -> JSONValue {
        .fields([
            ("key", .string(setting.key.rawValue)), ("value", .string("\(setting.value)")),
            ("mountPoint", setting.mountPoint.map { .path($0) } ?? .null),
            ("rule", .bool(setting.key.isRule)), ("file", .location(setting.file)),
            ("line", .integer(Int64(setting.line.number))),
        ])
    }
}
