// `protectfs keybag export` and `keybag import`: a copy of the keybag outside of the volume, and the way back.

import BackingStore
import CLibrary
import CommandSupport
import HostSystem
import KeyFiles
import Keybag
import ProtectedVolume
import SodiumKit
import VolumeAccess
import VolumeCheck
import VolumeFormat

extension Command {
    static let keybagExport = Command(
        "keybag export", .keys, [.volume, Operand("FILE", .path)], "Writes a copy of a volume's keybag to a file.",
        details: """
            The keybag is the file \(ReservedName.keybag) in the volume. It holds all keys of the volume, encrypted, and without
            it nothing in the volume can be decrypted. The copy is the same, byte for byte, and as secret as a copy of the
            volume: passphrases that work without the device key can be guessed from it. FILE - writes it to standard output.
            An existing FILE is replaced only if it is an older copy of this volume's keybag with the same keys: backups from
            before a change of keys (keys rotate) need the copy of that time. Make another copy after each
            change of a passphrase or of the recovery code; protectfs doctor says if there is none of the present keybag.

            The device key is never in the copy. To open the volume elsewhere you need the keybag and the recovery code; or the
            keybag, the device key and the passphrase.
            """,
        options: [.deviceKey, .previousKeybag, .acceptKeybag],
        examples: [
            .init("protectfs keybag export ~/.documents /media/stick/keybag", "Keep a copy; no passphrase is needed.")
        ], run: KeybagCopies.write)

    static let keybagImport = Command(
        "keybag import", .keys, [.volume, Operand("FILE", .path)],
        "Puts a copy of a volume's keybag back in its place.",
        details: """
            FILE is what keybag export has written, a \(ReservedName.keybag) from a backup, or \(ReservedName.previousKeybag) in
            the volume. FILE - reads standard input. The passphrase or recovery code that the copy was made with opens it first.
            Then the volume must show that the keys in it are its own. Only after that it replaces the keybag, which is kept as
            \(ReservedName.previousKeybag) until the next unlock.

            A keybag that is older than the one in the volume, or than the one last seen on this machine, is refused without
            --accept-keybag: passphrases that were removed since then would open the volume again. So is one that the volume
            does not prove to be its own, because the record of the volume's directory is damaged. And so is one from before a
            change of keys (keys rotate), because files that were written since then do not open with it.
            """,
        options: Option.credentials + [.deviceKey, .acceptKeybag],
        examples: [
            .init(
                "protectfs keybag import ~/.documents /media/stick/keybag", "Put a copy back; ask for the passphrase."),
            .init(
                "protectfs keybag import --recovery-file code ~/.documents keybag",
                "The same with the recovery code, without device key."),
        ], run: KeybagCopies.read)
}

/// The work of `keybag`.
enum KeybagCopies {
    private static let stream = HostPath("-")

    // MARK: export

    static func write(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let (path, file) = (arguments.operands[0], arguments.operands[1])
        let access = try CheckedVolume(path, .init(arguments))
        let isVerified: Bool
        let deviceKey = try access.found.deviceKey(try .init(arguments))
        if let problem = deviceKey.problem {
            throw .init(
                problem.code,
                "the keybag cannot be verified: \(problem.message). --device-key none copies it without")
        }
        do throws(KeybagError) { isVerified = try deviceKey.opens(access.bag) } catch .wrongDeviceKey {
            throw access.found.wrongDeviceKey(deviceKey.path)
        } catch {
            throw ErrorMessages.keybag(error, path)
        }
        let what =
            "the keybag of \(path) (serial \(access.bag.serial), \(isVerified ? "authentic" : "not verified, because the device key is not here"))"
        if file == stream {
            if Terminal.isTerminal(1) {
                throw .init(.usage, "the keybag is binary; write it to a file, or redirect standard output")
            }
            do throws(SystemError) {
                try Output.write(bytes: access.bag.bytes)
                try Output.flush()
            } catch {
                throw .init(.failure, "the keybag cannot be written to standard output: \(error.reason)")
            }
            KeybagCopyRecord(of: access.bag).write(access.bag.volumeID)
            Output.note("protectfs: wrote \(what) to standard output")
            return .success
        }
        try refuseInside(file, path)
        let older = try replace(file, with: access.bag)
        // A copy on the disk of the volume is lost with it.
        if let copy = try? FileStatus.read(file), let store = try? FileStatus.read(path.resolved()),
            copy.st_dev != store.st_dev
        {
            KeybagCopyRecord(of: access.bag).write(access.bag.volumeID)
        }
        let place = older.map { "\(file), in place of an older copy (serial \($0))" } ?? "\(file)"
        return Output.done(
            "wrote \(what) to \(place)",
            "Wrote \(what) to \(place).\nIt opens with the recovery code, or with the device key and a passphrase; keep these elsewhere.\n"
        )
    }

    /// A copy in the volume is lost with it.
    private static func refuseInside(_ file: HostPath, _ volume: HostPath) throws(CommandFailure) {
        guard let volume = try? volume.resolved(), let place = try? file.parent.resolved() else { return }
        guard place.isInside(volume) else { return }
        throw .init(.usage, "\(file): is inside the volume, and would be lost with it; choose another place")
    }

    /// Writes the file durably, and reads it back. A file of that name is replaced in one step, if it is an older copy.
    ///
    /// - Returns: the serial number of a copy that was replaced and differs.
    private static func replace(_ file: HostPath, with bag: Keybag) throws(CommandFailure) -> UInt64? {
        var older: UInt64?
        if (try? FileStatus.read(file)) != nil {
            let old = try? Keybag(parsing: readFile(file, limit: KeybagLayout.maximumLength + 1))
            guard let old, old.volumeID == bag.volumeID, old.serial <= bag.serial else {
                throw .init(
                    .usage,
                    "\(file): exists, and is not an older copy of this volume's keybag; choose another name, or remove it"
                )
            }
            guard old.generations == bag.generations else {
                throw .init(
                    .usage,
                    "\(file): exists, and backups of the volume from before the change of keys need it; choose another name, or remove it"
                )
            }
            if old.serial < bag.serial { older = old.serial }
        }
        let temporary = HostPath(bytes: file.bytes + Array(".part-\(getpid())".utf8))
        do throws(SystemError) {
            do throws(SystemError) {
                let made = try Descriptor(opening: temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600)
                // The array owns the bytes during the call.
                try made.write(bag.bytes.span)
                guard fsync(made.number) == 0 else { throw .last("fsync", file.description) }
                guard try readFile(temporary, limit: bag.bytes.count + 1) == bag.bytes else {
                    throw SystemError(code: EIO, call: "read", subject: file.description)
                }
                // Without RENAME_NOREPLACE, which not every file system has: the name was looked at above.
                try FileChange.rename(temporary, to: file, replacing: true)
            } catch {
                try? FileChange.removeFile(temporary)
                throw error
            }
            let directory = try Descriptor(opening: file.parent, O_RDONLY | O_DIRECTORY)
            _ = fsync(directory.number)
            return older
        } catch {
            throw .init(.failure, "\(file): the keybag cannot be written: \(error.reason)")
        }
    }

    // MARK: import

    static func read(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let (path, file) = (arguments.operands[0], arguments.operands[1])
        let policy = try Policy.read()
        let next = try keybag(in: file)
        let found = try FoundVolume(path, holding: next)
        let terms = CheckedVolume.Terms(arguments)
        _ = try judge(found, terms)
        if let note = try found.place().note(path) { Output.note(note) }
        let choice = try FoundVolume.DeviceKeyChoice(arguments)
        _ = try found.deviceKey(choice)
        let proven = try CredentialInput.retrying(arguments) {
            () throws(CommandFailure) -> (access: CheckedVolume, present: Keybag?, isWhole: Bool, lock: KeybagLock)? in
            let offered = try CredentialInput.credential(
                arguments, prompt: "Passphrase of this keybag of \(path): ", next)
            let lock = try KeybagLock(next.volumeID)
            // Again, because a command may have changed it while a person was typing.
            guard let access = try judge(found, terms) else { return nil }
            // A keybag that is lost or damaged has no slots to keep.
            let present = (try? KeybagFile.read(in: found.directory)).flatMap { try? Keybag(parsing: $0) }
            if let present {
                try policy.checkSlots(RequiredSlot.all(in: next), replacing: RequiredSlot.all(in: present))
            }
            let keys = try access.unlock(offered, try found.deviceKey(choice))
            let isWhole: Bool
            do throws(SodiumError) { isWhole = try present?.isAuthentic(keys) ?? false } catch {
                throw ErrorMessages.memory(error)
            }
            try prove(keys, access, isAccepted: arguments.has("accept-keybag"))
            return (access, present, isWhole, lock)
        }
        guard let (access, present, isWhole, lock) = proven else {
            return Output.done("nothing was changed", "\(path) has this keybag already; nothing was changed.\n")
        }
        defer { withExtendedLifetime(lock) {} }
        let keepsOld: Bool
        let whole = isWhole ? present?.bytes : nil
        do throws(Errno) { keepsOld = try KeybagFile.put(next.bytes, over: whole, in: access.directory) } catch {
            throw ErrorMessages.store(error, path)
        }
        var code = ExitCode.success
        do throws(CommandFailure) { try LocalState.pin(found, accept: access.outcome == .accepted) } catch {
            Output.error("the keybag is in place, but this machine could not record it: \(error.message)")
            code = .failure
        }
        Record.write(
            .keysChanged, next.volumeID,
            [.ownUser, .reason(.keybagImport), .result(code)] + Record.slots(from: present, to: next))
        let what =
            "the keybag of \(path) is \(file == stream ? "that of standard input" : "that of \(file)") now (serial \(next.serial))"
        let old =
            keepsOld
            ? "The one that was there is kept as \(ReservedName.previousKeybag) until the next unlock; keybag export --previous-keybag copies it.\n"
            : ""
        return Output.done(what, "T\(what.dropFirst()).\n\(old)", code)
    }

    /// The keybag in a file, unverified.
    private static func keybag(in file: HostPath) throws(CommandFailure) -> Keybag {
        let bytes: [UInt8]
        do throws(SystemError) {
            let limit = KeybagLayout.maximumLength + 1
            if file == stream {
                let input = Descriptor(taking: 0)
                let result = Result { () throws(SystemError) in try input.readAll(limit: limit) }
                _ = input.release()
                bytes = try result.get()
            } else {
                // Waits for what a pipe brings.
                let opened = try Descriptor(opening: file, O_RDONLY | O_NOCTTY)
                bytes = try opened.readAll(limit: limit)
            }
        } catch {
            throw .init(.failure, "\(file): the keybag cannot be read: \(error.reason)")
        }
        do throws(KeybagError) {
            let bag = try Keybag(parsing: bytes)
            try bag.requireWritable()
            return bag
        } catch .format(let error) {
            throw .init(
                .volume,
                "\(file): \(bytes.isEmpty ? "empty" : ErrorMessages.reason(error)), so it is no keybag that can be used; nothing was changed"
            )
        } catch {
            throw ErrorMessages.keybag(error, file)
        }
    }

    /// Compares a keybag with what this machine remembers, and with the one in the volume. Nil if the volume has it already.
    private static func judge(
        _ found: FoundVolume, _ terms: CheckedVolume.Terms
    ) throws(CommandFailure) -> CheckedVolume? {
        let present = try? KeybagFile.read(in: found.directory)
        let access = try CheckedVolume(candidate: found, terms)
        if let obstacle = try LocalState.obstacle(found) { throw obstacle }
        if present == found.bag.bytes { return nil }
        guard let present, let current = try? Keybag(parsing: present), current.volumeID == found.bag.volumeID else {
            return access
        }
        // Not even with --accept-keybag: the keys of files written since then are in the present keybag alone.
        guard !zip(current.generations, found.bag.generations).contains(where: { $0 > $1 }) else {
            throw .init(
                .volume,
                "\(found.path): the volume has newer keys (protectfs keys rotate) than the file, which does not open what was written since then; if the whole volume is from the time of the file, move \(ReservedName.keybag) out of it first"
            )
        }
        guard current.serial > found.bag.serial, !terms.accept else { return access }
        throw .init(
            .volume,
            "\(found.path): the volume has a newer keybag (\(current.serial)) than the file (\(found.bag.serial)): passphrases that were removed since then would open the volume again; use --accept-keybag to put the older one in its place"
        )
    }

    /// Refuses a keybag that is not the volume's.
    private static func prove(
        _ keys: consuming VolumeKeys, _ access: CheckedVolume, isAccepted: Bool
    ) throws(CommandFailure) {
        let known = keys.everyClassKey
        let ring: KeyRing
        do throws(SodiumError) { ring = try KeyRing(access.bag, keys: keys) } catch {
            throw ErrorMessages.memory(error)
        }
        let proof: KeybagFile.Proof
        do throws(Errno) { proof = try KeybagFile.proof(ring.metadata, in: access.directory) } catch {
            throw ErrorMessages.store(error, access.path)
        }
        let record = "\(ReservedName.directoryRecord)"
        let remedy = "--accept-keybag puts it there nevertheless"
        switch proof {
        case .proven: try requireKeys(known, ring.metadata, access, isAccepted: isAccepted)
        case .missing where !isAccepted:
            throw .init(
                .volume,
                "\(access.path): nothing proves that the keybag is this volume's, because \(record) is missing; \(remedy)"
            )
        case .contradicted where !isAccepted:
            throw .init(
                .volume,
                "\(access.path): the keybag belongs to another volume, or \(record) is damaged; if you know that it is this volume's, \(remedy)"
            )
        case .missing, .contradicted: return
        }
    }

    /// Refuses a keybag without keys that files of the store need, because it is from before a change of keys.
    private static func requireKeys(
        _ known: Set<FormerKey>, _ metadata: MetadataKeys, _ access: CheckedVolume, isAccepted: Bool
    ) throws(CommandFailure) {
        var (all, closed) = (UInt64(0), UInt64(0))
        let isMounted = !MountLookup.of(volume: access.path).isEmpty
        let needed: NeededKeys
        do throws(VolumeError) {
            needed = try NeededKeys.find(in: access.directory, metadata, isMounted: isMounted) { _, key in
                all += 1
                if !known.contains(key) { closed += 1 }
            }
        } catch {
            // A store that cannot be read everywhere needs its keybag all the more.
            let reason = ErrorMessages.volume(error, access.path).message
            return Output.note("protectfs: not every file was compared with the keybag: \(reason)")
        }
        guard let lack = needed.lack(known) else { return }
        let meaning =
            "\(lack): it is from before a change of keys, and does not open \(closed) of \(counted(all, "file")); look for a later copy"
        guard isAccepted else {
            throw .init(
                .volume, "\(access.path): \(meaning), or put this one there for the rest with --accept-keybag")
        }
        Output.note("protectfs: \(access.path): \(meaning)")
    }
}

extension NeededKeys {
    /// A file that needs a class key that is not among `known`, in words. Nil if there is none.
    func lack(_ known: Set<FormerKey>) -> String? {
        let unknown = keys.subtracting(known)
        guard let key = unknown.min(by: { ($0.number, $0.generation) < ($1.number, $1.generation) }) else { return nil }
        let file = examples[key].map { HostPath(bytes: $0).description } ?? "a file"
        return
            "\(file) in the store needs generation \(key.generation) of class \(key.number), which the keybag does not have"
    }
}
