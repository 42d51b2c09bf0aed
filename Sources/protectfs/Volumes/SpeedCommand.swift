// `protectfs speed`: measures the ciphers of this machine.

import CommandSupport
import Control
import HostSystem
import Keybag
import SodiumKit
import VolumeAccess
import VolumeFormat

extension Command {
    static let speed = Command(
        "speed", .maintenance, [], "Measures the ciphers on this machine.", options: [.json],
        examples: [.init("protectfs speed", "Show which cipher is the fastest here.")], run: Speed.run)
}

/// The work of `speed`.
enum Speed {
    static func run(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let speeds: [CipherSpeed]
        do throws(SodiumError) { speeds = try measureCiphers() } catch { throw ErrorMessages.memory(error) }
        let cost = try calibratedCost()
        func megabytes(_ speed: Double) -> Int64 { Int64(min(max(speed / 1_000_000, 0), 1e12)) }
        if arguments.has("json") {
            let rows = speeds.map { speed in
                JSONValue.fields([
                    ("cipher", .string(speed.suite.name)), ("code", .string(speed.backend.rawValue)),
                    ("used", .bool(speed.isUsed)),
                    ("encryptMBPerSecond", .integer(megabytes(speed.sealBytesPerSecond))),
                    ("decryptMBPerSecond", .integer(megabytes(speed.openBytesPerSecond))),
                ])
            }
            let hash = JSONValue.fields([
                ("passes", .integer(Int64(cost.passes))), ("memory", .integer(Int64(clamping: cost.memory))),
            ])
            Output.line(JSONValue.fields([("ciphers", .array(rows)), ("passwordHash", hash)]).line)
            return .success
        }
        var table = Table("CIPHER", "CODE", "ENCRYPT MB/s", "DECRYPT MB/s", "USED")
        for speed in speeds {
            table.add(
                speed.suite.name, speed.backend.rawValue, "\(megabytes(speed.sealBytesPerSecond))",
                "\(megabytes(speed.openBytesPerSecond))", speed.isUsed ? "yes" : "")
        }
        Output.print(table.text)
        Output.line(
            "4 KiB blocks, one core. A new passphrase here: Argon2id, \(cost.passes) passes over \(cost.memory >> 20) MiB."
        )
        return .success
    }
}
