// The small commands: `info`, `speed`, `version`.

import Control
import Glibc
import HostSystem
import Keybag
import SodiumKit
import VolumeFormat

/// The version of the program; that of the format is in its keybag.
let programVersion = "0.3.0"

extension Command {
    static let info = Command(
        "info", "VOLUME", "Shows what a volume is: its UUID, cipher, what opens it, where its device key is.",
        options: [.json, .deviceKey, .previousKeybag], run: Simple.info)

    static let speed = Command(
        "speed", "", "Measures the ciphers of this machine.", options: [.json], run: Simple.speed)

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

/// The work of the small commands.
enum Simple {
    static func info(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = try arguments.operands("VOLUME")[0]
        let access = try VolumeAccess(path, usePrevious: arguments.has("previous-keybag"))
        let bag = access.bag
        let state = try KnownState.load(access)
        let found = try access.deviceKey(.init(arguments))
        let place = try access.place()
        let usualPath = place.deviceKey(bag.volumeID)
        let keyPath = found.path ?? arguments.path("device-key") ?? usualPath
        var isAuthentic: Bool?
        if let problem = found.problem { throw problem }
        if case .some(let key) = found.key {
            do throws(KeybagError) { _ = try bag.open(deviceKey: key) } catch { throw Explain.keybag(error, path) }
            isAuthentic = true
        }
        let mounts = Mounted.of(volume: path)
        if arguments.has("json") {
            let fields: [(String, JSONValue)] = [
                ("volume", .string(path.description)), ("uuid", .string("\(bag.volumeID)")), ("format", .integer(1)),
                ("cipher", .string(cipherName(bag.suite))), ("keybagSerial", .integer(Int64(clamping: bag.serial))),
                ("hasDeviceKey", .bool(bag.hasDeviceKey)),
                ("deviceKey", bag.hasDeviceKey ? .string(keyPath.description) : .null),
                ("deviceKeyFound", .bool(isAuthentic != nil)),
                ("keybagAuthentic", isAuthentic.map { .bool($0) } ?? .null),
                ("slots", .array(bag.slots.map(Keys.describe))),
                ("knownHere", .bool(state != nil)), ("keybagPinned", .bool(state?.layout.isPinned ?? false)),
                ("copyOf", .optional(place.original?.description)),
                ("toleratesEverything", .bool(state?.layout.toleratesEverything ?? true)),
                ("openEpochs", .array((state?.layout.openEpochs ?? []).map { .integer(Int64($0)) })),
                ("mounts", .array(mounts.map { .string($0.mountPoint.description) })),
            ]
            Output.line(JSONValue.fields(fields).line)
            return .success
        }
        var table = Table("", "")
        table.add("Volume", path.description)
        table.add("UUID", "\(bag.volumeID)")
        table.add("Cipher", cipherName(bag.suite))
        table.add(
            "Keybag",
            "serial \(bag.serial)" + (isAuthentic == true ? ", authentic" : ", not checked (needs the device key)"))
        table.add("Device key", bag.hasDeviceKey ? "\(keyPath)" + (isAuthentic == nil ? " (not here)" : "") : "none")
        for slot in bag.slots where slot.kind != .device {
            table.add(
                "Opens with", Keys.kindName(slot.kind) + (slot.isBound ? " and device key" : "") + " (slot \(slot.id))")
        }
        if let original = place.original { table.add("Copy of", "\(original), or moved from there") }
        switch state?.layout {
        case nil: table.add("State", "not seen on this machine before: crash damage is tolerated until a complete fsck")
        case .some(let layout) where layout.toleratesEverything:
            table.add("State", "crash damage is tolerated until a complete fsck")
        case .some(let layout): table.add("State", "\(layout.openEpochs.count) sessions open or ended by a crash")
        }
        if state?.layout.isPinned == false {
            table.add("Class B", "takes no new files here before the first unlock, which verifies the public key")
        }
        for mount in mounts { table.add("Mounted at", mount.mountPoint.description) }
        Output.print(table.text)
        return .success
    }

    static func speed(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        _ = try arguments.operands()
        let speeds: [CipherSpeed]
        do throws(SodiumError) { speeds = try measureCiphers() } catch { throw Explain.memory(error) }
        let cost = try calibratedCost()
        func megabytes(_ speed: Double) -> Int64 { Int64(min(max(speed / 1_000_000, 0), 1e12)) }
        func name(_ backend: CipherBackend) -> String { backend == .ipsecMB ? "IPsec-MB" : "libsodium" }
        func cipher(_ suite: CipherSuite) -> String { suite == .aes256GCM ? "aes-256-gcm" : "xchacha20-poly1305" }
        if arguments.has("json") {
            let rows = speeds.map { speed in
                JSONValue.fields([
                    ("cipher", .string(cipher(speed.suite))), ("code", .string(name(speed.backend))),
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
                cipher(speed.suite), name(speed.backend), "\(megabytes(speed.sealBytesPerSecond))",
                "\(megabytes(speed.openBytesPerSecond))", speed.isUsed ? "yes" : "")
        }
        Output.print(table.text)
        Output.line(
            "4 KiB blocks, one core. A new passphrase here: Argon2id, \(cost.passes) passes over \(cost.memory >> 20) MiB."
        )
        return .success
    }
}
