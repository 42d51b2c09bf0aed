// `protectfs version`.

import CommandSupport
import Control
import HostSystem
import VolumeFormat

extension Command {
    static let version = Command(
        "version", .other, [], "Shows the version.", options: [.json],
        examples: [.init("protectfs version", "Show the versions of the program and of the volume format.")],
        usesKeys: false,
        run: { (arguments) throws(CommandFailure) in
            let (version, format) = (ProgramVersion.number, FormatVersion.current)
            let fields: [(String, JSONValue)] = [("version", .string(version)), ("format", .integer(Int64(format)))]
            Output.line(
                arguments.has("json")
                    ? JSONValue.fields(isTrial ? fields + [("trial", .bool(true))] : fields).line
                    : "protectfs \(version), volume format \(format)\(isTrial ? ", a trial build" : "")")
            return .success
        })
}

// What mount-scripts/quickstart builds is not to be installed.
#if TRIAL
    private let isTrial = true
#else
    private let isTrial = false
#endif
