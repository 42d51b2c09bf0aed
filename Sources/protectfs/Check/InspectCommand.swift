// `protectfs inspect`: shows and verifies one object of a store, and writes nothing.

import BackingStore
import CLibrary
import CommandSupport
import Control
import HostSystem
import KeyFiles
import Keybag
import MountDaemon
import ProtectedVolume
import SodiumKit
import VolumeAccess
import VolumeCheck
import VolumeFormat

extension Command {
    static let inspect = Command(
        "inspect", .maintenance, [Operand("STORE-FILE", .path)],
        "Shows what one object of a volume's directory is, and whether it verifies.",
        details: """
            STORE-FILE is an encrypted file in the volume's directory (the store), in a snapshot of it, or in a backup;
            protectfs path shows it for a file of a mount. For a file, inspect shows header, class, flags, size and file ID, and of
            each page the epoch, the length, and the reason if it is refused. Equal pages are shown as one line. For a directory it
            shows the record, for a symbolic link the target, and for an object of the format what it is. It also shows the name on
            the mount, if the names of the directories above verify. It never writes, and the volume may be mounted.

            The exit code is 0 if everything verifies, 4 if something is damaged or its name is not proven, 5 if a newer version of
            protectfs made it, 8 if the class is closed without a passphrase, and 6 if a program changed the file meanwhile.
            """,
        more: """
            The volume is the directory above STORE-FILE that has \(ReservedName.keybag). --volume names another one, whose keys and
            rules then count: for a single file from a backup, or for a snapshot that was taken before a passphrase change, so that
            today's passphrase opens it.

            The device key opens headers, names and files of class none. The passphrase is asked only if the class needs it. With
            --no-unlock, or without a terminal, inspect shows the rest and says what is missing.

            Damage that a crash explains is shown and does not count. Extended attributes are not looked at; protectfs fsck checks them.
            """,
        options: [
            .json, Option("pages", help: "show each page by itself"),
            Option(
                "volume", value: Value(name: "VOLUME", kind: .directory),
                help: "use the keys and the state of this volume"),
            Option("no-unlock", help: "do not ask for a passphrase"), .deviceKey,
        ] + Option.credentials + [.acceptKeybag, .previousKeybag],
        examples: [
            .init(
                "protectfs inspect \"$(protectfs path ~/documents/diary.txt)\"", "Show what is stored of a file."),
            .init(
                "protectfs inspect --volume ~/.documents /backup/ENCRYPTED-NAME",
                "Show a file of a backup, with today's keys."),
        ], run: Inspect.run)
}

/// The work of `inspect`.
private struct Inspect {
    private let arguments: Arguments
    private let object: StoreObject
    private let access: CheckedVolume
    private let deviceKey: FoundVolume.DeviceKeyChoice
    private let ring: KeyRing
    private let inspector: Inspector
    /// The object's names.
    private let name: InspectReport.Name

    static func run(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        try Inspect(arguments).show()
    }

    private init(_ arguments: Arguments) throws(CommandFailure) {
        try CredentialInput.refuseUnused(arguments)
        self.arguments = arguments
        object = try StoreObject(arguments.operands[0], isAlone: arguments.has("volume"))
        guard let volume = arguments.path("volume") ?? object.root else {
            throw .init(
                .volume,
                "\(object.typed): no directory above has \(ReservedName.keybag); name the volume with --volume")
        }
        access = try CheckedVolume(volume, .init(arguments))
        if let root = object.root, let bag = try? FoundVolume(root).bag, bag.volumeID != access.bag.volumeID {
            throw .init(.usage, "\(object.typed): belongs to another volume than \(volume)")
        }
        deviceKey = try .init(arguments)
        ring = try Self.keys(access, deviceKey, arguments)
        let state = try LocalState.load(access.found) == nil ? nil : LocalState.store(access.found)
        do throws(VolumeError) {
            let mounts = MountLookup.of(volume: access.path)
            inspector = try Inspector(
                store: object.store ?? access.directory, keys: ring, state: state,
                living: { Set(mounts.flatMap { InfoState.ownEpochs($0) ?? [] }) })
            name = try InspectReport.Name(object, inspector)
        } catch {
            throw ErrorMessages.volume(error, object.typed)
        }
    }

    /// The keys of the credential that is given, else those of the device key, else those of a passphrase.
    private static func keys(
        _ access: CheckedVolume, _ choice: FoundVolume.DeviceKeyChoice, _ arguments: Arguments
    ) throws(CommandFailure) -> KeyRing {
        let isGiven = Option.ways.contains { arguments.has($0.name) }
        if !isGiven || arguments.has("no-unlock") {
            let deviceKey = try access.found.deviceKey(choice)
            let isHere = deviceKey.path != nil
            if !isHere, arguments.has("no-unlock"), let failure = deviceKey.missing("so nothing can be verified") {
                throw failure
            }
            if isHere, access.bag.opensWithDeviceKey || arguments.has("no-unlock") {
                return try Daemon.openKeys(access, choice, nil).0
            }
        }
        return try CredentialInput.retrying(arguments) { () throws(CommandFailure) in
            let credential: Credential? = try CredentialInput.credential(
                arguments, prompt: prompt(access), access.bag)
            return try Daemon.openKeys(access, choice, credential).0
        }
    }

    private static func prompt(_ access: CheckedVolume) -> String { "Passphrase of \(access.path): " }

    /// Unlocks with a passphrase from the terminal. Returns why that was not possible.
    private func unlock() throws(CommandFailure) -> String? {
        if arguments.has("no-unlock") { return "a passphrase or the recovery code is needed" }
        let credential: Credential
        do throws(CommandFailure) {
            credential = try CredentialInput.credential(arguments, prompt: Self.prompt(access), access.bag)
        } catch {
            if QuietTerminal.hasSignal { throw error }
            return error.message
        }
        let keys = try access.unlock(credential, access.found.deviceKey(deviceKey))
        do throws(KeyError) { _ = try ring.unlock(with: keys) } catch {
            throw ErrorMessages.keybag(.bundleMismatch, access.path)
        }
        return nil
    }

    private func show() throws(CommandFailure) -> ExitCode {
        var report = InspectReport(object, name, access, isJSON: arguments.has("json"))
        if let reserved = name.reserved, object.kind != .regular || reserved != .temporary, !object.isInside(reserved) {
            return report.show(reserved: reserved)
        }
        // Its target is the name, which has been verified.
        if object.isCompanion { return report.showOther() }
        switch object.kind {
        case .regular: return try showFile(&report)
        case .directory:
            return report.show(
                try read { () throws(VolumeError) in
                    try inspector.record(of: object.directory(), isRoot: object.isRoot)
                })
        case .symlink:
            guard let (directory, entry) = object.entry else { return report.showOther() }
            let found = try read { () throws(VolumeError) in
                try inspector.target(of: entry, in: directory)
            }
            return report.show(found)
        default: return report.showOther()
        }
    }

    private func read<Result>(_ body: () throws(VolumeError) -> Result) throws(CommandFailure) -> Result {
        do throws(VolumeError) { return try body() } catch { throw ErrorMessages.volume(error, object.typed) }
    }

    private func showFile(_ report: inout InspectReport) throws(CommandFailure) -> ExitCode {
        let file = try read { () throws(VolumeError) in try object.file() }
        var missing: String?
        while true {
            var failure: CommandFailure?
            var isAgain = false
            let end = try read { () throws(VolumeError) in
                try inspector.look(
                    at: file, alone: arguments.has("pages"),
                    begin: { found in
                        if case .locked? = found.error, missing == nil {
                            do throws(CommandFailure) { missing = try unlock() } catch { failure = error }
                            isAgain = missing == nil
                            if isAgain { return false }
                        }
                        report.begin(found, missing: missing)
                        return true
                    },
                    report: { run in
                        report.add(run)
                        return true
                    })
            }
            if let failure { throw failure }
            if !isAgain { return report.end(end) }
        }
    }
}
