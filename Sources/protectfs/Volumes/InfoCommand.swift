// `protectfs info`: shows the facts of a volume without unlocking it.

import CLibrary
import CommandSupport
import Control
import HostSystem
import Keybag
import SodiumKit
import VolumeAccess
import VolumeFormat

extension Command {
    static let info = Command(
        "info", .volumes, [.volume],
        "Shows what a volume is: its UUID and cipher, what opens it, and where its device key is.",
        options: [.json, .deviceKey, .previousKeybag],
        examples: [.init("protectfs info ~/.documents", "Show the volume; no passphrase is needed.")],
        run: InfoReport.run)
}

/// The work of `info`.
enum InfoReport {
    static func run(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        let access = try FoundVolume(path, usePrevious: arguments.has("previous-keybag"))
        let bag = access.bag
        let mounts = MountLookup.of(volume: path)
        let state = InfoState(access, mounts)
        access.warnIfRefused()
        let found = try access.deviceKey(try .init(arguments))
        // Without it the state file is unusable, which has been said.
        let place = try? access.place()
        let usualPath = place?.deviceKey(bag.volumeID) ?? LocalFile.deviceKey(of: bag.volumeID)
        let keyPath = found.path ?? arguments.path("device-key") ?? usualPath
        var isAuthentic: Bool?
        // The rest is shown nevertheless.
        if let problem = found.problem { Output.fail(problem) }
        let code = state.code == .success ? found.problem?.code ?? .success : state.code
        let isHere = found.path != nil
        if let slot = bag.newerDeviceSlot { Output.error(ErrorMessages.newerDeviceSlot(slot, path)) }
        if bag.opensWithDeviceKey {
            do throws(KeybagError) { if try found.opens(bag) { isAuthentic = true } } catch {
                throw ErrorMessages.keybag(error, path)
            }
        }
        let keybag = InfoKeybag(bag: bag, isAuthentic: isAuthentic == true)
        if arguments.has("json") {
            var fields: [(String, JSONValue)] = [
                ("volume", .location(path)), ("uuid", .string("\(bag.volumeID)")),
                ("cipher", .string(bag.suite.name)), ("keybagSerial", .integer(Int64(clamping: bag.serial))),
                ("hasDeviceKey", .bool(bag.hasDeviceKey)),
                ("deviceKey", .optional(path: bag.hasDeviceKey ? keyPath : nil)),
                ("deviceKeyFound", .bool(isHere)),
                ("keybagAuthentic", isAuthentic.map { .bool($0) } ?? .null),
                ("copyOf", .optional(path: place?.original)),
                ("mounts", .array(mounts.map { .path($0.mountPoint) })),
            ]
            fields += keybag.fields + state.fields
            Output.line(JSONValue.fields(fields).line)
            return code
        }
        var table = Table("", "")
        table.add("Volume", path.description)
        table.add("UUID", "\(bag.volumeID)")
        table.add("Cipher", bag.suite.name)
        table.add(
            "Keybag",
            "serial \(bag.serial)"
                + (isAuthentic == true ? ", authentic" : ", not verified" + (isHere ? "" : " (needs the device key)")))
        table.add(
            "Device key",
            bag.hasDeviceKey ? "\(keyPath)" + (isHere ? "" : " (not on this machine)") : "none")
        keybag.add(to: &table)
        if let original = place?.original { table.add("Copy of", "\(original) (or moved from there)") }
        state.add(to: &table)
        if bag.hasDeviceKey, !state.isPinned {
            table.add("Class B", "accepts new files here after the first unlock, which verifies the public key")
        }
        for mount in mounts { table.add("Mounted at", mount.mountPoint.description) }
        Output.print(table.text)
        return code
    }
}
