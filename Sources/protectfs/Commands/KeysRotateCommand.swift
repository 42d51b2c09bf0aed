// `protectfs keys rotate`: new class keys, and every file under a new file key.

import BackingStore
import Control
import Glibc
import HostSystem
import Keybag
import ProtectedVolume
import SodiumKit
import VolumeFormat

extension Command {
    static let keysRotate = Command(
        "keys rotate", .keys, [.volume], "Makes new class keys, and writes every file anew under them.",
        details: """
            Afterwards an older copy of the keybag, with its passphrase, recovery code or device key, opens no file of
            the volume as it is then. It still reads names, attributes and symbolic links, because their key cannot be
            changed; for another one make a new volume and import the old one. Copies of the files that were made
            before stay readable with it.

            The volume must not be mounted. The passphrase that is given and the device key stay valid. A new recovery
            code is shown, and the old one stops working. Other slots, whose secrets are not known, are removed: this
            must be allowed with --drop-slots. Add them again afterwards.

            You can interrupt it at any time, use the volume, and run it again: it goes on with the files that are
            left, and shows another recovery code at its end. Former keys leave the keybag when no file in the store
            needs them. Files with several names, files that are damaged and files in \(ReservedName.lostAndFound) are
            not written anew; they keep the former key in the keybag, and are named.

            If class completeUnlessOpen gets a new key, other machines that know the volume ask for --accept-keybag
            once.
            """,
        options: [
            Option(
                "class", value: .protectionClass, standard: "all classes", help: "change the key of this class only"),
            Option("rate", value: Value(name: "MIB", kind: .text), help: "write at most MIB MiB each second"),
            Option("drop-slots", help: "remove the slots whose secrets are not given"),
            .passphraseFile, .passphraseCommand, .deviceKey, .acceptKeybag,
        ],
        examples: [
            .init("protectfs keys rotate ~/.documents", "Change the keys of all classes."),
            .init("protectfs keys rotate --rate 50 ~/.documents", "The same, at 50 MiB each second."),
        ], run: KeysRotate.run)
}

/// The work of `keys rotate`.
enum KeysRotate {
    static func run(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        try Output.requireOpen()
        let classes = try classes(arguments)
        let rate = try rate(arguments)
        // Before the prompt. The claim itself comes later, and finds the rest.
        if MountLookup.of(volume: path).first != nil { throw Fsck.busy(path) }
        var passphrase: SecretBytes?
        let opened = try KeybagCommands.open(arguments, path) { (offered, _, _) throws(CommandFailure) in
            switch offered {
            case .passphrase(let given):
                do throws(SodiumError) { passphrase = try given.copy() } catch { throw ErrorMessages.memory(error) }
            case .recoveryCode: break
            case .recipientKey: break
            }
        }
        try Fsck.claim(opened.access.found, false)
        try EndingMount.waiting(for: path) { () throws(CommandFailure) in try MountClaim.take(opened.access.found) }
        guard let passphrase else { preconditionFailure("the credential is a passphrase") }
        if opened.access.bag.hasDeviceKey,
            let failure = opened.deviceKey.missing("and its slot must get the new keys")
        {
            throw failure
        }
        let dropped = opened.access.bag.slotsWithoutSecret(opened.keys)
        if !dropped.isEmpty, !arguments.has("drop-slots") { throw refusal(path, dropped) }
        guard opened.keys.formerKeys.isEmpty else {
            if arguments.has("class") {
                throw .init(
                    .usage, "\(path): a rotation is under way; give the command without --class to end it first")
            }
            Output.note("Going on with the rotation that was interrupted.")
            try opened.access.pin()
            return try rewrite(
                opened, opened.access, opened.keys, passphrase, code: nil, rate,
                "Copies of the keybag from before that rotation open no file of the volume as it is now; they still read its names. Those made since it began still open everything: for new keys, run protectfs keys rotate again.\n"
            )
        }
        let made = try KeybagCommands.edit(path) { () throws(KeybagError) in
            try opened.access.bag.rotating(
                classes, passphrase: passphrase, deviceKey: opened.deviceKey.key, keys: opened.keys)
        }
        try show(made.recoveryCode)
        let code = try KeybagCommands.replace(
            opened.access, opened.policy, by: made.bag, .keysRotate,
            changesPublicKey: classes.contains(.completeUnlessOpen),
            "the recovery code that was shown is not valid; the old one still works, and no key was changed")
        guard code == .success else {
            Output.error(
                "\(path): the new keybag is in place and the recovery code that was shown is valid, but no file was written anew yet; run protectfs keys rotate --accept-keybag to go on"
            )
            return code
        }
        // From now on new files use the new keys.
        let what =
            arguments.has("class")
            ? "no file of class \(classes.map(\.canonicalName).joined(separator: ", "))" : "no file"
        return try rewrite(
            opened, try opened.access.readAgain(), made.keys, passphrase, code: made.recoveryCode, rate,
            "Older copies of the keybag open \(what) of the volume as it is now; they still read its names. Make a new copy (protectfs keybag export), and add passphrases and recipients that were dropped.\n"
        )
    }

    /// Writes the files anew, and then takes the keys out of the keybag that nothing needs.
    private static func rewrite(
        _ opened: KeybagCommands.Opened, _ access: CheckedVolume, _ keys: borrowing VolumeKeys,
        _ passphrase: borrowing SecretBytes, code: borrowing SecretBytes?, _ rate: UInt64?, _ effect: String
    ) throws(CommandFailure) -> ExitCode {
        let path = access.path
        let ring: KeyRing
        do throws(SodiumError) { ring = try KeyRing(access.bag, keys: keys.copy()) } catch {
            throw ErrorMessages.memory(error)
        }
        let states = try LocalState.store(access.found)
        let interrupted = Interruption(exit: ExitCode.failure.number)
        let progress = Progress()
        let pace = Pace(rate)
        let needed: NeededKeys
        var done: UInt64 = 0
        do throws(VolumeError) {
            defer { progress.end() }
            let summary = try KeyRotation.run(directory: access.directory, keys: ring, states: states) { files, bytes in
                done = files
                progress.show("\(files) files, \(bytes >> 20) MiB")
                pace.wait(at: bytes) { !interrupted.isAsked }
                return !interrupted.isAsked
            } notice: { notice in
                Output.error(Daemon.describe(notice, withNames: true))
            } report: { file, error in
                Output.error(ErrorMessages.volume(error, HostPath(bytes: file)).message + reason(error))
            }
            done = summary.files
            if summary.isInterrupted { throw .refused(.EINTR) }
            progress.show("looking for files that need a former key")
            needed = try KeyRotation.neededKeys(in: access.directory, keys: ring) { !interrupted.isAsked }
        } catch .refused(.EINTR), .store(.EINTR) {
            throw .init(
                .failure,
                "\(path): interrupted after \(done) files; the volume can be used, and protectfs keys rotate goes on with the rest"
            )
        } catch {
            throw ErrorMessages.volume(error, path)
        }
        let former = keys.formerKeys
        let unneeded = needed.unneeded(of: former)
        if !unneeded.isEmpty {
            let next = try KeybagCommands.edit(path) { () throws(KeybagError) in
                try access.bag.dropping(
                    unneeded, passphrase: passphrase, deviceKey: opened.deviceKey.key, code: code, keys: keys)
            }
            // A code that was shown before stays valid.
            switch code {
            case .some: break
            case .none: try show(next.recoveryCode)
            }
            let result = try KeybagCommands.replace(
                access, opened.policy, by: next.bag, .keysRotate,
                "the former keys are still in the keybag; run protectfs keys rotate again")
            guard result == .success else { return result }
        }
        let left = former.subtracting(unneeded)
        guard left.isEmpty else { throw unfinished(path, left, needed) }
        return Output.done(
            "the keys are changed",
            "\(done) files were written under new keys, and no former key is left in the keybag.\n" + effect)
    }

    /// What a reason of a file's own adds to its message.
    private static func reason(_ error: VolumeError) -> String {
        error == .refused(.EMLINK) ? "; a file with several names (hard links) is not written anew" : ""
    }

    private static func unfinished(
        _ path: HostPath, _ left: Set<FormerKey>, _ needed: NeededKeys
    ) -> CommandFailure {
        var reasons: [String] = []
        if needed.hasNewer { reasons.append("a newer version of protectfs has made files") }
        if let file = needed.damaged { reasons.append("\(HostPath(bytes: file)) in the store has a damaged header") }
        if needed.hasLateRecords {
            reasons.append("late writes wait for their files: run protectfs fsck, or mount and unlock the volume")
        }
        for key in left.sorted(by: { ($0.number, $0.generation) < ($1.number, $1.generation) }) {
            if let file = needed.examples[key] {
                reasons.append(
                    "\(HostPath(bytes: file)) in the store needs generation \(key.generation) of class \(key.number)")
            }
        }
        return .init(
            .failure,
            "\(path): former keys stay in the keybag: \(reasons.joined(separator: "; ")); mend or remove these files and run protectfs keys rotate again"
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

    private static func refusal(_ path: HostPath, _ slots: [Keybag.SlotSummary]) -> CommandFailure {
        let names = slots.map { slot in "\(slot.id)" + (slot.label.name.map { " (\($0))" } ?? "") }
        return .init(
            .usage,
            "\(path): these slots cannot get the new keys, because their secrets are not known: \(names.joined(separator: ", ")); --drop-slots removes them. Nothing was changed"
        )
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

/// Bounds the bytes written each second.
private final class Pace {
    private let rate: UInt64?
    private let start = monotonicNanoseconds()

    init(_ rate: UInt64?) { self.rate = rate }

    /// Waits until `bytes` since the start are within the rate, or `goesOn` says no.
    func wait(at bytes: UInt64, goesOn: () -> Bool) {
        guard let rate else { return }
        let due = start &+ UInt64(Double(bytes) / Double(rate) * 1e9)
        while goesOn(), monotonicNanoseconds() < due { usleep(10_000) }
    }
}
