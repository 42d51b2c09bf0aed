// `protectfs init`: makes a volume, its device key and its recovery code, or nothing at all.

import CommandSupport
import Control
import BackingStore
import CLibrary
internal import FileContents
import HostSystem
import KeyFiles
import Keybag
import ProtectedVolume
import SodiumKit
import VolumeAccess
import VolumeFormat

extension Command {
    static let initialise = Command(
        "init", .volumes, [.volume], "Makes a new volume in a new or empty directory.",
        details: """
            By default, the passphrase works only together with the device key, which is a file outside the volume, so that someone with
            a copy of the volume cannot brute-force the passphrase. On another machine you need a copy of the device key or
            the recovery code. The recovery code is shown once.

            The file system below should have blocks of at least 4096 bytes; nearly all do. Small ext4 file systems have
            blocks of 1024 bytes (mkfs.ext4 -b 4096 makes larger ones). With smaller blocks a power cut can destroy a page
            that is being overwritten; init and mount warn of this.

            A directory inside another volume, or inside a mount of one, is refused.
            """,
        options: [
            Option(
                "cipher", value: Value(name: "NAME", kind: .words(CipherSuite.allCases.map(\.name))),
                standard: "the fastest on this CPU",
                help: "encrypt with \(CipherSuite.allCases.map(\.name).joined(separator: " or "))"),
            Option(
                "device-key", value: .file, standard: Option.deviceKeyPlace,
                help: "write the device key to FILE; none makes a volume without a device key"),
            Option("portable", help: "make a passphrase that works without the device key"),
            .label, .json, .passphraseFile, .passphraseCommand, .passphraseCredential,
        ] + Option.newPassphrase,
        examples: [
            .init("protectfs init ~/.documents", "Make a volume; ask for the passphrase."),
            .init(
                "protectfs init --device-key none --passphrase-file passphrase volume",
                "Make a volume that the passphrase alone opens."),
        ], run: InitRun.run)
}

/// The work of `init`.
enum InitRun {
    static func run(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        try Output.requireOpen()
        let label = try KeybagCommands.label(arguments) ?? "init"
        let policy = try Policy.read()
        let suite = try cipher(arguments, policy)
        let noDeviceKey = arguments.path("device-key") == Option.noDeviceKey
        let isPortable = noDeviceKey || arguments.has("portable")
        try policy.checkPortable(isPortable)
        try policy.checkSlots(
            Set([.passphrase, .recovery] + (noDeviceKey ? [] : [.device]) + (isPortable ? [.portable] : [])))
        let (directory, isNew) = try openEmpty(path)
        do throws(CommandFailure) {
            try tryStore(directory, path)
            for text in [
                StoreWarning.smallBlocks(below: directory, path), StoreWarning.shortNames(below: directory, path),
            ].compactMap({ $0 }) { Output.error(text) }
            let passphrase = try CredentialInput.newPassphrase(
                arguments, isBound: !isPortable, orPlain: true)
            let cost = try policy.cost()
            if noDeviceKey {
                let made = try make(path) { () throws(KeybagError) in
                    try Keybag.create(suite: suite, passphrase: passphrase, cost: cost, label: label)
                }
                try write(made, in: directory, path, key: nil, arguments)
                return report(made.bag, path, key: nil, arguments)
            }
            let key = try DeviceKeyFile.random()
            let made = try make(path) { () throws(KeybagError) in
                try Keybag.create(
                    suite: suite, passphrase: passphrase, portable: arguments.has("portable"), deviceKey: key,
                    cost: cost, label: label)
            }
            let keyPath = arguments.path("device-key") ?? LocalFile.deviceKey(of: made.bag.volumeID)
            try DeviceKeyFile.refuseInside(keyPath, path)
            try DeviceKeyFile.write(key, to: keyPath)
            do throws(CommandFailure) {
                try write(made, in: directory, path, key: keyPath, arguments)
            } catch {
                DeviceKeyFile.remove(keyPath)
                throw error
            }
            return report(made.bag, path, key: keyPath, arguments)
        } catch {
            if isNew { _ = unsafe path.withCString { unsafe rmdir($0) } }
            throw error
        }
    }

    private static func make(
        _ path: HostPath, _ body: () throws(KeybagError) -> NewKeybag
    ) throws(CommandFailure) -> NewKeybag {
        do throws(KeybagError) { return try body() } catch { throw ErrorMessages.keybag(error, path) }
    }

    private static func cipher(_ arguments: Arguments, _ policy: Policy) throws(CommandFailure) -> CipherSuite {
        var chosen: CipherSuite?
        if let name = try arguments.text("cipher") {
            chosen = CipherSuite(name: name)
            guard chosen != nil else {
                let names = CipherSuite.allCases.map(\.name).joined(separator: " nor ")
                throw .init(.usage, "--cipher: \"\(name)\" is neither \(names)")
            }
        }
        return try policy.cipher(chosen)
    }

    private static func openEmpty(_ path: HostPath) throws(CommandFailure) -> (HostDirectory, isNew: Bool) {
        let text = try FoundVolume.text(path)
        try refuseInside(path)
        let isNew = unsafe path.withCString { unsafe mkdir($0, 0o700) } == 0
        if !isNew, errno != EEXIST {
            throw .init(.failure, "\(path): cannot make the directory: \(SystemError.reason(of: errno))")
        }
        // The name is durable before the keybag is. A parent that cannot be opened for reading cannot be synced.
        if isNew, let parent = try? FoundVolume.text(path.parent) {
            try? HostDirectory.open(path: parent).synchronize()
        }
        do {
            let directory = try HostDirectory.open(path: text)
            var count = 0
            var isVolume = false
            try directory.forEachEntry { entry in
                let name = Array(entry.name.bytes)
                let ignored: [StaticString] = [ReservedName.storesLostAndFound, ".", ".."]
                if ignored.contains(where: { name.elementsEqual("\($0)".utf8) }) { return true }
                if name == Array("\(ReservedName.keybag)".utf8) { isVolume = true }
                count += 1
                return true
            }
            if isVolume { throw CommandFailure(.usage, "\(path): already a protectfs volume; nothing was changed") }
            guard count == 0 else {
                throw CommandFailure(.usage, "\(path): not empty; use a new or empty directory")
            }
            return (directory, isNew)
        } catch let error as Errno {
            if error == .ENOTDIR { throw .init(.usage, "\(path): not a directory") }
            throw ErrorMessages.store(error, path)
        } catch let error as CommandFailure {
            throw error
        } catch {
            throw .init(.failure, "\(path): \(error)")
        }
    }

    /// A volume in a mount would be locked with it. In a store its files would be foreign to the other volume.
    private static func refuseInside(_ path: HostPath) throws(CommandFailure) {
        // A path that leads nowhere fails when the directory is made.
        guard let absolute = try? path.absolute(),
            var place = (try? path.resolved()) ?? (try? absolute.parent.resolved())
        else { return }
        if let mount = try? MountTable.entry(containing: place), mount.isProtectfs {
            throw .init(
                .usage,
                "\(path): is inside the volume that is mounted at \(mount.mountPoint); choose a directory outside it")
        }
        // A directory that is itself a volume gets the message for that.
        if (try? path.resolved()) != nil { place = place.parent }
        while true {
            if MountLookup.isVolume(place) {
                throw .init(
                    .usage, "\(path): is inside \(place), which is a protectfs volume; choose a directory outside it")
            }
            guard place.parent != place else { return }
            place = place.parent
        }
    }

    private static func metadata(_ made: borrowing NewKeybag, _ path: HostPath) throws(VolumeError) -> MetadataKeys {
        do throws(SodiumError) { return try made.keys.metadataKeys() } catch { throw .store(.ENOMEM) }
    }

    private static func tryStore(_ directory: HostDirectory, _ path: HostPath) throws(CommandFailure) {
        do throws(VolumeError) { try NewVolume.tryStore(directory) } catch { throw ErrorMessages.volume(error, path) }
    }

    /// Writes the root's record first and the keybag last, so that a directory with a keybag is a whole volume. The recovery
    /// code is shown in between, so that no volume is made whose code was not shown.
    private static func write(
        _ made: borrowing NewKeybag, in directory: HostDirectory, _ path: HostPath, key: HostPath?,
        _ arguments: Arguments
    ) throws(CommandFailure) {
        do throws(VolumeError) {
            try NewVolume.writeRootRecord(in: directory, keys: try metadata(made, path))
        } catch {
            throw ErrorMessages.volume(error, path)
        }
        do throws(CommandFailure) {
            try show(made, path, key: key, arguments)
            do throws(CommandFailure) {
                try makeKnown(made.bag, in: directory, path)
            } catch {
                throw .init(error.code, "\(error.message); no volume was made, and the recovery code is not valid")
            }
        } catch {
            try? NewVolume.removeRootRecord(in: directory)
            throw error
        }
    }

    private static func makeKnown(
        _ bag: Keybag, in directory: HostDirectory, _ path: HostPath
    ) throws(CommandFailure) {
        do throws(Errno) {
            try KeybagFile.create(bag.bytes, in: directory)
        } catch {
            KeybagFile.remove(in: directory)
            throw ErrorMessages.store(error, path)
        }
        do throws(CommandFailure) {
            try LocalState.create(bag, StateFileLayout.Store(directory, path))
        } catch {
            KeybagFile.remove(in: directory)
            throw error
        }
    }

    /// Shows the recovery code. As JSON it comes with all other fields, because a reader expects one object.
    private static func show(
        _ made: borrowing NewKeybag, _ path: HostPath, key: HostPath?, _ arguments: Arguments
    ) throws(CommandFailure) {
        var (before, after) = (
            "Recovery code (opens the volume without anything else; write it down, it is not shown again):\n\n    ",
            "\n\n"
        )
        if arguments.has("json") {
            let fields: [(String, JSONValue)] = [
                ("volume", .location(path)), ("uuid", .string("\(made.bag.volumeID)")),
                ("cipher", .string(made.bag.suite.name)), ("deviceKey", .optional(path: key)),
                ("portable", .bool(arguments.has("portable") || key == nil)),
            ]
            before = String(JSONValue.fields(fields).line.dropLast()) + ",\"recoveryCode\":\""
            after = "\"}\n"
        }
        try Output.show(before, secret: made.recoveryCode, after, kept: "no volume was made")
    }

    /// Reports the new volume, to the record too.
    private static func report(_ bag: Keybag, _ path: HostPath, key: HostPath?, _ arguments: Arguments) -> ExitCode {
        Record.write(
            .keysChanged, bag.volumeID,
            [.ownUser, .reason(.initialise), .result(.success)] + Record.slots(from: nil, to: bag))
        let what = "the volume is made in \(path)"
        if arguments.has("json") { return Output.done(what, "") }
        var text = "Volume \(bag.volumeID) in \(path), cipher \(bag.suite.name).\n"
        if let key {
            text += "Device key: \(key)\n"
            if !arguments.has("portable") {
                text +=
                    "The passphrase works only together with it. Elsewhere you need a copy of that file, or the recovery code.\n"
            }
        } else {
            text +=
                "There is no device key: anyone with a copy of the volume can try to guess the passphrase.\n"
        }
        return Output.done(what, text + "\nNext: protectfs mount \(path.word) MOUNTPOINT\n")
    }
}
