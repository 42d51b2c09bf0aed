// Finds the files that `erase` destroys: the keybags of the volume, whole or damaged, and the key files that certainly belong
// to it.

import BackingStore
import CLibrary
import CommandSupport
import Control
internal import FileContents
import HostSystem
import KeyFiles
import Keybag
import ProtectedVolume
import SodiumKit
import VolumeAccess
import VolumeFormat

extension EraseRun {
    /// Finds everything, and changes nothing.
    static func find(_ path: HostPath, _ arguments: Arguments) throws(CommandFailure) -> Target {
        if let failure = KeybagAdvice.isMount(path) { throw failure }
        let text = try FoundVolume.text(path)
        let directory: HostDirectory
        do throws(Errno) { directory = try HostDirectory.open(path: text) } catch {
            throw ErrorMessages.store(error, path)
        }
        let names = KeybagFile.allNames
        func hasAny(_ names: [EntryName]) -> Bool { names.contains { (try? directory.status(of: $0)) != nil } }
        guard hasAny(names + names.compactMap(KeyFileEraser.marked)) else {
            throw .init(
                .volume,
                "\(path): not a protectfs volume (\(ReservedName.keybag) is missing), or its keys are already destroyed"
            )
        }
        try claim(directory, path)
        let search = DeviceKeySearch(
            arguments, KeybagFile.remains(in: directory), try StateFileLayout.Store(directory, path))
        var target = Target(path: path, directory: directory)
        target.volume = search.remains.first?.volumeID
        if target.volume == nil, hasAny(names), search.choice == .usual {
            throw .init(
                .volume,
                "\(path): the keybag is too damaged to name its volume; use --device-key FILE to destroy the device key too (see \(SystemPaths.data)), or --device-key none to keep it. Nothing was destroyed"
            )
        }
        try search.run(&target)
        return target
    }

    private static func claim(_ directory: HostDirectory, _ path: HostPath) throws(CommandFailure) {
        do throws(VolumeError) {
            try Volume.claim(directory, VolumeOptions())
        } catch .refused(.EBUSY) {
            let strangers = StoreProof.strangers(holding: path)
            guard strangers.isEmpty else {
                // Any user who can read the directory can lock it. The volume is not mounted: a mount would have the lock.
                let words = strangers.map {
                    "process \($0.process) of \($0.user.map(AccountNames.user) ?? "an unknown user")"
                }
                return Output.note(
                    "protectfs: \(path): locked by \(words.joined(separator: ", ")), who has no part in the volume; it is erased nevertheless"
                )
            }
            let place =
                MountLookup.of(volume: path).first.map { "mounted at \($0.mountPoint)" } ?? "in use by another command"
            throw .init(.busy, "\(path): the volume is \(place); unmount it first. Nothing was destroyed")
        } catch {
            throw ErrorMessages.volume(error, path)
        }
    }
}

/// Decides which key files belong to the volume.
///
/// Anyone can write another volume's UUID into a keybag, so a key file's name alone proves nothing, or someone who hands over a
/// store could have the device key of another volume destroyed. A proof is a slot that was made with the key, in a keybag of any
/// version. If no slot can be read, the proof is a state file, which is not in the store: this machine has used this store under
/// this UUID, and has only one key of that name. Without a proof a person decides, with --device-key.
private struct DeviceKeySearch {
    enum Choice: Equatable {
        case usual
        case file(HostPath)
        case none
    }

    let choice: Choice
    /// All of one volume, the current one first.
    let remains: [KeybagRemains]
    /// Files named like a device key of the volume that is in use.
    private let current: [HostPath]
    /// Files named like a device key of the volume that was replaced.
    private let replaced: [HostPath]
    private var named: [HostPath] { current + replaced }
    private let states: EraseRun.StateFiles

    init(_ arguments: Arguments, _ found: [KeybagRemains], _ store: StateFileLayout.Store) {
        switch arguments.path("device-key") {
        case nil: choice = .usual
        case Option.noDeviceKey: choice = .none
        case .some(let path): choice = .file(path)
        }
        remains = found.filter { $0.volumeID == found[0].volumeID }
        let files = found.first.map { LocalFile.all(of: $0.volumeID) } ?? []
        current = Self.paths(files.filter { $0.isDeviceKey && !$0.isReplacedKey })
        replaced = Self.paths(files.filter(\.isReplacedKey))
        states = EraseRun.StateFiles(remains, store)
    }

    /// Each path once, because a file and its remains from an earlier run may both exist.
    private static func paths(_ files: [LocalFile]) -> [HostPath] {
        files.reduce(into: []) { found, file in if !found.contains(file.path) { found.append(file.path) } }
    }

    func run(_ target: inout EraseRun.Target) throws(CommandFailure) {
        target.isProven = states.areProof
        target.mayHaveDeviceKey = remains.isEmpty || !remains.allSatisfy(\.hasNoDeviceKey)
        var old = replaced
        if case .file(let given) = choice {
            try take(given, &target, isGiven: true)
            old.append(LocalFile.replacedKey(given, attempt: 1))
        }
        for path in current {
            let isTaken = target.deviceKeys.contains { isSame($0, path) }
            if !isTaken || isLink(path) { try take(path, &target, isGiven: false) }
        }
        for path in old { try takeOld(path, &target) }
        try takeCopies(&target)
        (target.states, target.keptStates) = states.decide(isProven: target.isProven)
    }

    /// Copies of its keys beside them under any name, but only those that open the keybag.
    private func takeCopies(_ target: inout EraseRun.Target) throws(CommandFailure) {
        for name in (try? FileStatus.names(in: SystemPaths.data)) ?? [] {
            let path = SystemPaths.data.appending(bytes: name.bytes)
            guard !named.contains(path), !target.deviceKeys.contains(where: { isSame($0, path) }),
                let status = try? FileStatus.read(path), status.st_mode & S_IFMT == S_IFREG,
                status.st_size == off_t(SecretKey.byteCount),
                let key = try DeviceKeyFile.read(path, isOptional: true), try opens(key)
            else { continue }
            if choice == .none {
                target.spared.append((path, "--device-key none was given"))
            } else {
                try refuseLinks(path)
                target.deviceKeys.append(path)
            }
        }
    }

    private func isSame(_ one: HostPath, _ other: HostPath) -> Bool {
        guard let one = try? one.resolved(), let other = try? other.resolved() else { return false }
        return one == other
    }

    /// The device key at `path`, or its remains from an earlier run.
    private func take(_ path: HostPath, _ target: inout EraseRun.Target, isGiven: Bool) throws(CommandFailure) {
        guard EraseRun.isThere(path) else {
            if EraseRun.isThere(LocalFile.beingErased(path)) { return target.deviceKeys.append(path) }
            if isGiven { _ = try DeviceKeyFile.read(path, isOptional: false) }
            return
        }
        if choice == .none { return target.spared.append((path, "--device-key none was given")) }
        // A link at the default path, to the key that was given.
        if !isGiven, isLink(path), target.deviceKeys.contains(where: { isSame($0, path) }) {
            return target.links.append(path)
        }
        if !isGiven, spareUnlessKey(path, &target) { return }
        try refuseLinks(path)
        guard let key = try DeviceKeyFile.read(path, isOptional: false) else { return }
        if try opens(key) {
            target.isProven = true
            return target.deviceKeys.append(path)
        }
        if try judge(path, isGiven: isGiven) { return target.deviceKeys.append(path) }
        target.spared.append((path, "it does not open this volume's keybag"))
    }

    /// Whether a key that opens nothing here is destroyed anyway.
    private func judge(_ path: HostPath, isGiven: Bool) throws(CommandFailure) -> Bool {
        let canTell = remains.contains(where: \.namesItsDeviceKey)
        let isRemembered = states.areProof
        if isGiven {
            if !canTell || (isRemembered && named.contains { isSame($0, path) }) { return true }
            throw .init(
                .authentication, "device key \(path): it does not open this volume's keybag. Nothing was destroyed")
        }
        // A file that a person has named is destroyed, and nothing else with it.
        if canTell || choice != .usual { return false }
        // Copies of a volume have one UUID.
        if isRemembered, current.count == 1 { return true }
        throw .init(
            .volume,
            "the keybag is damaged or was made by a newer version, so protectfs cannot tell whether \(path) is its device key; use --device-key \(path.word) to destroy it too, or --device-key none to keep it. Nothing was destroyed"
        )
    }

    /// A key that `recovery use` has replaced, as UUID.key.old. It opens copies of the volume from before, and is destroyed
    /// with the key that replaced it.
    private func takeOld(_ path: HostPath, _ target: inout EraseRun.Target) throws(CommandFailure) {
        guard EraseRun.isThere(path) else {
            if EraseRun.isThere(LocalFile.beingErased(path)) { target.deviceKeys.append(path) }
            return
        }
        if choice == .none { return target.spared.append((path, "--device-key none was given")) }
        if spareUnlessKey(path, &target) { return }
        try refuseLinks(path)
        guard let key = try DeviceKeyFile.read(path, isOptional: false) else { return }
        let isReplaced = target.deviceKeys.contains { path.bytes.starts(with: $0.bytes + [UInt8(ascii: ".")]) }
        let isAlone = current.isEmpty
        let isOwn = try opens(key)
        if isOwn || isReplaced || (isAlone && target.isProven) { return target.deviceKeys.append(path) }
        target.spared.append((path, "it does not open this volume's keybag"))
    }

    private func opens(_ key: borrowing SecretKey) throws(CommandFailure) -> Bool {
        for one in remains {
            do throws(KeybagError) {
                if try one.belongs(to: key) { return true }
            } catch .memory(let error) { throw ErrorMessages.memory(error) } catch { continue }
        }
        return false
    }

    /// Leaves alone what cannot be a key of a volume, although it has the name of one: nothing tells what it is.
    private func spareUnlessKey(_ path: HostPath, _ target: inout EraseRun.Target) -> Bool {
        guard !isLink(path), let status = try? FileStatus.read(path),
            status.st_mode & S_IFMT != S_IFREG || status.st_size != off_t(SecretKey.byteCount)
        else { return false }
        target.spared.append((path, "it is not a device key (a device key has exactly 32 bytes)"))
        return true
    }

    private func isLink(_ path: HostPath) -> Bool {
        (try? FileStatus.read(path)).map { $0.st_mode & S_IFMT == S_IFLNK } ?? false
    }

    /// Overwriting a file that has other names destroys it under these too.
    private func refuseLinks(_ path: HostPath) throws(CommandFailure) {
        if isLink(path) {
            let target = try? path.resolved()
            let place = target.map { "use --device-key \($0.word)" } ?? "its target is missing; remove it"
            throw .init(.failure, "device key \(path): is a symbolic link; \(place). Nothing was destroyed")
        }
        guard let status = try? FileStatus.read(path), status.st_nlink > 1 else { return }
        throw .init(
            .failure,
            "device key \(path): has \(status.st_nlink) hard links (find -inum \(status.st_ino) shows them); remove the others first. Nothing was destroyed"
        )
    }
}
