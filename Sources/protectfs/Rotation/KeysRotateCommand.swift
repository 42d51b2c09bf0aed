// `protectfs keys rotate`: new class keys, and every file under a new file key.

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
    static let keysRotate = Command(
        "keys rotate", .keys, [.volume], "Makes new class keys, and writes every file anew under them.",
        details: """
            Afterwards an older copy of the keybag, with its passphrase, recovery code or device key, opens none of the
            files that the volume then has. It still reads names, attributes and symbolic links, because their key
            cannot be changed; for another one make a new volume and import the old one. Copies of the files that were
            made before stay readable with it.

            The passphrase that is given and the device key stay valid. A new recovery code is shown, and the old one
            stops working. Other passphrases stay if they are typed: --ask-others asks for each of them. Other slots,
            whose secrets are not known, are removed: this must be allowed with --drop-slots. Add them again
            afterwards.
            """,
        more: """
            You can interrupt it at any time, use the volume, and run it again: it goes on with the files that are
            left, and shows another recovery code at its end. Files with several names, files that are damaged and
            files in \(ReservedName.lostAndFound) are not written anew; they need the former key, and are named.

            If the volume is mounted, its daemon writes the files anew while programs use them; it must be unlocked at
            the beginning, and the rotation waits while it is locked. A mount with -o shared must be unmounted before.

            Former keys stay in the keybag, so that a backup in which some files are from before opens with it. Take
            them out when your backups are made anew: protectfs keys retire, or --retire if there are none.

            Class completeUnlessOpen always gets a new key. Other machines that have unlocked the volume take the new
            keys over if the device key vouches for them; otherwise they ask for --accept-keybag once.
            """,
        options: [
            Option(
                "class", value: .protectionClass, standard: "all classes",
                help: "change the key of this class, and of completeUnlessOpen"),
            Option("rate", value: Value(name: "MIB", kind: .text), help: "write at most MIB MiB each second"),
            Option("retire", help: "take the former keys out of the keybag at the end, as keys retire does"),
        ] + slotOptions,
        examples: [
            .init("protectfs keys rotate ~/.documents", "Change the keys of all classes."),
            .init("protectfs keys rotate --rate 50 ~/.documents", "The same, at 50 MiB each second."),
        ], run: { (arguments) throws(CommandFailure) in try KeysRotate.run(arguments) })

    /// Options of the commands that make every slot anew.
    static let slotOptions = [
        Option("ask-others", help: "ask for the passphrases of other slots, to keep them"),
        Option("drop-slots", help: "remove the slots whose secrets are not given"),
        .passphraseFile, .passphraseCommand, .passphraseCredential, .askPassword, .deviceKey, .acceptKeybag,
    ]
}

/// The work of `keys rotate`.
enum KeysRotate {
    /// A volume whose keybag has the new keys.
    struct Prepared: ~Copyable {
        let access: CheckedVolume
        let policy: Policy
        /// Keeps other commands from changing the keybag.
        let lock: KeybagLock
        let choice: FoundVolume.DeviceKeyChoice
        let keys: VolumeKeys
        let passphrase: SecretBytes
        let others: AskedSlots
        /// The recovery code that was shown. Nil if none was.
        let code: SecretBytes?
        /// Whether new keys were made, and not by an earlier run.
        let isNew: Bool
        /// Whether the former keys leave the keybag at the end.
        let retires: Bool
        /// What the rotation gives when it has ended.
        let effect: String
    }

    /// - Parameter onlyRetires: for `keys retire`: no new keys are made.
    static func run(_ arguments: Arguments, onlyRetires: Bool = false) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        try Output.requireOpen()
        let classes = onlyRetires ? [] : try classes(arguments)
        let rate = onlyRetires ? nil : try rate(arguments)
        // Before the prompt.
        let mount = try RotatingMount(path)
        guard let prepared = try prepare(arguments, path, classes, mount) else { return .failure }
        // Not before, because a prompt can be ended by Ctrl-C.
        let interrupted = Interruption(exit: ExitCode.failure.number)
        let volume: any RotatingVolume
        if let mount { volume = mount } else { volume = try OpenedVolume(prepared) }
        return try FileRotation(volume, arguments, prepared, rate, interrupted).run()
    }

    /// Opens the volume, and replaces its keybag by one with new keys. Nil after a failure that has been reported.
    private static func prepare(
        _ arguments: Arguments, _ path: HostPath, _ classes: [ProtectionClass], _ mount: RotatingMount?
    ) throws(CommandFailure) -> Prepared? {
        var given: SecretBytes?
        let opened = try KeybagCommands.open(arguments, path) { (offered, _, _) throws(CommandFailure) in
            do throws(SodiumError) {
                given = try offered.withSecret { (secret) throws(SodiumError) in try secret.copy() }
            } catch {
                throw ErrorMessages.memory(error)
            }
        }
        let access = opened.access
        let metadata: MetadataKeys
        do throws(SodiumError) { metadata = try opened.keys.metadataKeys() } catch { throw ErrorMessages.memory(error) }
        // Before anything is changed or sent.
        try mount?.trust(onlyWith: metadata)
        if mount == nil {
            try Fsck.claim(access.found, false)
            try EndingMount.waiting(for: path) { () throws(CommandFailure) in try MountClaim.take(access.found) }
        }
        // `slotOptions` have no other credential, and a volume that is open was opened with one.
        guard let passphrase = given.take() else { preconditionFailure("opened without a credential") }
        if access.bag.hasDeviceKey, let failure = opened.deviceKey.missing("and its slot must get the new keys") {
            throw failure
        }
        let others = try AskedSlots(arguments, access, opened.deviceKey, opened.keys)
        try others.requireAll(arguments, access, opened.keys)
        let choice = try FoundVolume.DeviceKeyChoice(arguments)
        let needed = try look(access, metadata, mount)
        let former = opened.keys.formerKeys
        let left = former.subtracting(needed.unneeded(of: former))
        let isBegun = !left.isEmpty
        if classes.isEmpty {
            if isBegun { throw unfinished(path, left, needed) }
            guard !former.isEmpty else {
                throw .init(.usage, "\(path): the keybag has no former keys; nothing was changed")
            }
        }
        if isBegun || classes.isEmpty {
            if arguments.has("class") {
                throw .init(
                    .usage, "\(path): a rotation is under way; give the command without --class to end it first")
            }
            if isBegun { Output.note("Going on with the rotation that was interrupted.") }
            try access.pin()
            let keys: VolumeKeys
            do throws(SodiumError) { keys = try opened.keys.copy() } catch { throw ErrorMessages.memory(error) }
            return Prepared(
                access: access, policy: opened.policy, lock: opened.lock, choice: choice, keys: keys,
                passphrase: passphrase, others: others, code: nil, isNew: false,
                retires: classes.isEmpty || arguments.has("retire"),
                effect: isBegun
                    ? "Copies of the keybag from before that rotation open no file of the volume as it is now; they still read its names. Those made since it began still open everything: for new keys, run protectfs keys rotate again.\n"
                    : ""
            )
        }
        try requireKnownKeys(access, opened.keys, needed)
        let made = try KeybagCommands.edit(path) { () throws(KeybagError) in
            try access.bag.rotating(
                classes, passphrase: passphrase, others: others.given, deviceKey: opened.deviceKey.key,
                keys: opened.keys)
        }
        try show(made.recoveryCode)
        let code = try KeybagCommands.replace(
            access, opened.policy, by: made.bag, .keysRotate,
            changesPublicKey: true,
            "the recovery code that was shown is not valid; the old one still works, and no key was changed")
        guard code == .success else {
            Output.error(
                "\(path): the new keybag is in place and the recovery code that was shown is valid, but no file was written anew yet; run protectfs keys rotate --accept-keybag to go on"
            )
            return nil
        }
        // From now on new files use the new keys. A mount takes them in first.
        let what =
            arguments.has("class")
            ? "no file of class \(classes.map(\.canonicalName).joined(separator: ", "))" : "no file"
        let keys: VolumeKeys
        do throws(SodiumError) { keys = try made.keys.copy() } catch { throw ErrorMessages.memory(error) }
        let dropped = AskedSlots.names(access.bag.slotsWithoutSecret(opened.keys, others.given))
        let shown: SecretBytes?
        do throws(SodiumError) { shown = try copy(of: made.recoveryCode) } catch { throw ErrorMessages.memory(error) }
        return Prepared(
            access: try access.readAgain(isAlone: true), policy: opened.policy, lock: opened.lock, choice: choice,
            keys: keys,
            passphrase: passphrase, others: others, code: shown, isNew: true, retires: arguments.has("retire"),
            effect:
                "Older copies of the keybag open \(what) of the volume as it is now; they still read its names. The next incremental backup of the store copies every file that was written anew. Make a new copy of the keybag (protectfs keybag export).\n"
                + (dropped.isEmpty ? "" : "These slots were removed; add them again if they are needed: \(dropped).\n")
        )
    }

    /// A copy of a recovery code. Nil if it is not wanted.
    static func copy(of code: borrowing SecretBytes?, if isWanted: Bool = true) throws(SodiumError) -> SecretBytes? {
        switch code {
        case .some(let text): isWanted ? try text.copy() : nil
        case .none: nil
        }
    }

    /// The class keys that the store needs now, and the open files of a mount.
    private static func look(
        _ access: CheckedVolume, _ metadata: MetadataKeys, _ mount: RotatingMount?
    ) throws(CommandFailure) -> NeededKeys {
        var needed: NeededKeys
        do throws(VolumeError) {
            needed = try NeededKeys.find(in: access.directory, metadata, isMounted: mount != nil)
        } catch {
            throw ErrorMessages.volume(error, access.path)
        }
        if let mount { needed.keys.formUnion(try mount.formerKeys().keys) }
        return needed
    }

    /// Refuses if a file of the store needs a class key that the keybag does not have, because an older keybag was put in place by
    /// hand. New keys would get the generations of those that it does not know, and the right keybag would not come back.
    private static func requireKnownKeys(
        _ access: CheckedVolume, _ keys: borrowing VolumeKeys, _ needed: NeededKeys
    ) throws(CommandFailure) {
        guard let lack = needed.lack(keys.everyClassKey) else { return }
        throw .init(
            .volume,
            "\(access.path): \(lack). If an older keybag was put in place, put the right one back (protectfs keybag import). If the file is from a backup, remove it. Nothing was changed"
        )
    }

    /// Takes `unneeded` out of the keybag. Without any, it gets another recovery code only.
    static func drop(
        _ unneeded: Set<FormerKey>, _ access: CheckedVolume, _ policy: Policy, _ choice: FoundVolume.DeviceKeyChoice,
        _ keys: borrowing VolumeKeys, _ passphrase: borrowing SecretBytes, _ others: AskedSlots,
        code: borrowing SecretBytes?
    ) throws(CommandFailure) -> ExitCode {
        let deviceKey = try access.found.deviceKey(choice)
        let next = try KeybagCommands.edit(access.path) { () throws(KeybagError) in
            try access.bag.dropping(
                unneeded, passphrase: passphrase, others: others.given, deviceKey: deviceKey.key, code: code, keys: keys
            )
        }
        // A code that was shown before stays valid.
        switch code {
        case .some: break
        case .none: try show(next.recoveryCode)
        }
        return try KeybagCommands.replace(
            access, policy, by: next.bag, .keysRotate,
            "the former keys are still in the keybag; run protectfs keys rotate again")
    }

    /// The end of the command, after the keys have left the keybag that shall.
    static func finished(
        _ path: HostPath, _ needed: NeededKeys, _ former: Set<FormerKey>, _ files: UInt64, _ effect: String,
        retires: Bool
    ) throws(CommandFailure) -> ExitCode {
        let left = former.subtracting(needed.unneeded(of: former))
        guard left.isEmpty else { throw unfinished(path, left, needed) }
        let kept =
            retires
            ? "no former key is left in the keybag."
            : "no file of the store needs a former key. The former keys stay in the keybag, for backups: make one of each kind, and then run protectfs keys retire \(path.word)."
        return Output.done(
            "the keys are changed",
            "\(counted(files, "file was", "files were")) written under new keys, and \(kept)\n" + effect)
    }

    static func interrupted(_ path: HostPath, _ files: UInt64) -> CommandFailure {
        .init(
            .failure,
            "\(path): interrupted after \(counted(files, "file")); the volume can be used, and protectfs keys rotate goes on with the rest"
        )
    }

    private static func unfinished(
        _ path: HostPath, _ left: Set<FormerKey>, _ needed: NeededKeys
    ) -> CommandFailure {
        var reasons: [String] = []
        if needed.hasNewer { reasons.append("a newer version of protectfs has made files") }
        if let file = needed.damaged { reasons.append("\(HostPath(bytes: file)) in the store has a damaged header") }
        if let file = needed.late {
            reasons.append(
                "\(HostPath(bytes: file)) in the store has late writes that wait for their files: run protectfs fsck, or mount and unlock the volume; if that names the file as unusable, remove it"
            )
        }
        if needed.late == nil, needed.hasLateRecords {
            reasons.append("late writes wait for their files: unlock the volume, and open these files")
        }
        for key in left.sorted(by: { ($0.number, $0.generation) < ($1.number, $1.generation) }) {
            if let file = needed.examples[key] {
                reasons.append(
                    "\(HostPath(bytes: file)) in the store needs generation \(key.generation) of class \(key.number)")
            } else if needed.keys.contains(key) {
                reasons.append(
                    "a file that a program has open needs generation \(key.generation) of class \(key.number)")
            }
        }
        return .init(
            .failure,
            "\(path): former keys stay in the keybag: \(reasons.joined(separator: "; ")); mend, close or remove these files and run protectfs keys rotate again"
        )
    }

    private static func show(_ code: borrowing SecretBytes?) throws(CommandFailure) {
        switch code {
        case .some(let code):
            try Output.show(
                "New recovery code (write it down, it is not shown again; the old one stops working):\n\n    ",
                secret: code, "\n\n", kept: "the old one still works")
        case .none: break
        }
    }

    private static func classes(_ arguments: Arguments) throws(CommandFailure) -> [ProtectionClass] {
        guard let text = try arguments.text("class") else { return ProtectionClass.allCases }
        guard let one = ProtectionClass(name: text) else { throw ErrorMessages.unknownClass(HostPath(text)) }
        return [one]
    }

    private static func rate(_ arguments: Arguments) throws(CommandFailure) -> UInt64? {
        guard let text = try arguments.text("rate") else { return nil }
        guard let number = UInt32(text), number > 0 else {
            throw .init(.usage, "--rate: \"\(HostPath(text))\" is not a number of MiB each second, from 1")
        }
        return UInt64(number) << 20
    }
}
