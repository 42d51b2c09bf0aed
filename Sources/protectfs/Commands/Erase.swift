// `protectfs erase`: destroys the keys of a volume, so that nobody reads it any more.

import BackingStore
import Control
import Glibc
import HostSystem
import Keybag
import ProtectedVolume
import SodiumKit
import VolumeFormat

extension Command {
    static let erase = Command(
        "erase", "VOLUME", "Destroys the keys of a volume: nobody can read it any more.",
        details: """
            The device key, the state file and the keybag with its predecessor are overwritten, made durable, read back and
            removed, in this order; then it is verified that nothing is left. The encrypted files stay: remove them when you
            like. On a terminal you are asked to type the name of the volume's directory. Interrupted, the volume either still
            opens, or running erase again finishes it. A mounted volume is refused.

            What it cannot reach: solid-state disks and copy-on-write file systems (btrfs, ZFS, snapshots of any kind) may keep
            old blocks of a file that is overwritten, and discard them when they like. Copies and backups of the volume stay
            readable to who has its recovery code, a portable passphrase, or a copy of the device key with the passphrase.
            """,
        options: [
            .json, Option("yes", help: "do not ask: for scripts"), .deviceKey,
        ], run: Erasing.run)
}

/// The work of `erase`.
enum Erasing {
    /// What is known of the volume before anything is destroyed.
    private struct Target {
        let path: HostPath
        let directory: HostDirectory
        /// Nil where a former run, or damage, has left none that can be read.
        var volume: VolumeID?
        /// The device key's file, if it is here and this volume's.
        var deviceKey: HostPath?
        /// A device key that is left alone, and why.
        var spared: (HostPath, String)?
    }

    /// What was done.
    private struct Report {
        var destroyed: [HostPath] = []
        var missing: [HostPath] = []
    }

    static func run(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = try arguments.operands("VOLUME")[0]
        let target = try find(path, arguments)
        try refuseOtherCopies(target)
        // Two commands that change one keybag exclude each other.
        let lock = try target.volume.map { (volume) throws(CommandFailure) in try KeybagLock(volume) }
        if !arguments.has("yes") { try confirm(target) }
        var report = Report()
        do throws(CommandFailure) {
            try destroy(target, &report)
            try verify(target, report)
        } catch {
            let done =
                report.destroyed.isEmpty ? "nothing was destroyed" : "\(list(report.destroyed)) destroyed already"
            throw .init(error.code, "\(error.message); \(done); run protectfs erase again")
        }
        withExtendedLifetime(lock) {}
        say(target, report, isJSON: arguments.has("json"))
        return .success
    }

    // MARK: before

    private static func find(_ path: HostPath, _ arguments: Arguments) throws(CommandFailure) -> Target {
        let text = try VolumeAccess.text(path)
        let directory: HostDirectory
        do throws(Errno) { directory = try HostDirectory.open(path: text) } catch { throw Explain.store(error, path) }
        guard KeybagFile.allNames.contains(where: { (try? directory.status(of: $0)) != nil }) else {
            throw .init(
                .volume,
                "\(path): not a protectfs volume (no .protectfs.keybag in it), or its keys are destroyed already")
        }
        do throws(VolumeError) {
            try Volume.claim(directory, VolumeOptions())
        } catch .refused(.EBUSY) {
            let place =
                Mounted.of(volume: path).first.map { "mounted at \($0.mountPoint)" } ?? "in use by another command"
            throw .init(.busy, "\(path): the volume is \(place); unmount it first. Nothing was destroyed")
        } catch {
            throw Explain.volume(error, path)
        }
        var target = Target(path: path, directory: directory)
        try findDeviceKey(&target, arguments)
        return target
    }

    /// A key is destroyed only if it opens this very keybag: a keybag can be made to name another volume's.
    private static func findDeviceKey(_ target: inout Target, _ arguments: Arguments) throws(CommandFailure) {
        let given = arguments.path("device-key").flatMap { $0 == HostPath("none") ? nil : $0 }
        guard let access = (try? VolumeAccess(target.path)) ?? (try? VolumeAccess(target.path, usePrevious: true))
        else {
            if let given { target.spared = (given, "the keybag is damaged, so whose key this is cannot be told") }
            return
        }
        target.volume = access.bag.volumeID
        guard access.bag.hasDeviceKey || given != nil else { return }
        let path = given ?? DeviceKeyFile.defaultPath(access.bag.volumeID)
        if isHalfDestroyed(path) {
            target.deviceKey = path
            return
        }
        guard let key = try DeviceKeyFile.read(path, isOptional: given == nil) else { return }
        do throws(KeybagError) {
            _ = try access.bag.open(deviceKey: key)
            target.deviceKey = (try? path.resolved()) ?? path
        } catch {
            if given != nil {
                throw .init(
                    .authentication, "device key \(path): it does not open this volume's keybag. Nothing was destroyed")
            }
            target.spared = (path, "it does not open this volume's keybag")
        }
    }

    /// Whether a former run has begun with a device key, and not come to its end.
    private static func isHalfDestroyed(_ path: HostPath) -> Bool {
        let marked = HostPath(bytes: path.bytes + Array(".erasing".utf8))
        return !exists(path) && exists(marked)
    }

    private static func exists(_ path: HostPath) -> Bool { unsafe path.withCString { unsafe access($0, F_OK) } == 0 }

    /// The device key is that of every copy of the volume: one that is mounted would be lost when it is unmounted.
    private static func refuseOtherCopies(_ target: Target) throws(CommandFailure) {
        guard let volume = target.volume, target.deviceKey != nil else { return }
        for mount in Mounted.all() {
            guard let other = try? VolumeAccess(mount.source), other.bag.volumeID == volume else { continue }
            throw .init(
                .busy,
                "\(target.path): \(mount.source), a copy of this volume with the same device key, is mounted at \(mount.mountPoint); unmount it first. Nothing was destroyed"
            )
        }
    }

    private static func confirm(_ target: Target) throws(CommandFailure) {
        let name = ((try? target.path.resolved()) ?? target.path).lastComponent
        var question = ["This destroys the keys of \(target.path): nothing in it can be read again, by nobody."]
        if let key = target.deviceKey {
            question.append("It destroys the device key \(key) too, which copies of the volume need as well.")
        }
        question.append("Type the name of the volume's directory, \(name), to go on: ")
        let answer: [UInt8]
        do throws(SystemError) {
            answer = try Terminal.ask(question.map(Output.oneLine).joined(separator: "\n"))
        } catch {
            throw .init(
                .usage, "erase asks on a terminal whether you mean it, and there is none; in scripts give --yes")
        }
        guard answer == name.bytes else { throw .init(.usage, "that is not the name; nothing was destroyed") }
    }

    // MARK: doing it

    /// The device key first, the keybag last: as long as there is a keybag that can be read, the rest can be found.
    private static func destroy(_ target: Target, _ report: inout Report) throws(CommandFailure) {
        if let path = target.deviceKey { try destroy(path, &report) }
        if let volume = target.volume {
            let directory = SystemPaths.data
            if exists(directory) {
                let path = directory.appending("\(volume).state")
                let store = try KnownState.store(volume, 1)
                do throws(Errno) { note(try store.destroy(), path, &report) } catch { throw failure(error, path) }
                remove(directory.appending("\(volume).keybag.lock"))
            }
        }
        for name in KeybagFile.allNames {
            let path = target.path.appending(bytes: Array(name.bytes))
            do throws(Errno) {
                note(try Eraser.destroy(name, in: target.directory), path, &report)
            } catch {
                throw failure(error, path)
            }
        }
    }

    private static func failure(_ error: Errno, _ path: HostPath) -> CommandFailure {
        .init(.failure, "\(path): \(SystemError.reason(of: error.rawValue))")
    }

    private static func destroy(_ path: HostPath, _ report: inout Report) throws(CommandFailure) {
        guard let name = EntryName(path.lastComponent.bytes) else { throw .init(.usage, "\(path): no file's name") }
        let parent = try VolumeAccess.text(path.parent)
        do throws(Errno) {
            note(try Eraser.destroyMarked(name, in: HostDirectory.open(path: parent)), path, &report)
        } catch { throw failure(error, path) }
    }

    private static func note(_ outcome: ErasureOutcome, _ path: HostPath, _ report: inout Report) {
        if outcome == .missing { report.missing.append(path) } else { report.destroyed.append(path) }
    }

    private static func remove(_ path: HostPath) { _ = unsafe path.withCString { unsafe unlink($0) } }

    /// Looks again, by the paths and not by what was remembered.
    private static func verify(_ target: Target, _ report: Report) throws(CommandFailure) {
        for path in report.destroyed where exists(path) {
            throw .init(.failure, "\(path): it is there again: something, a sync client perhaps, has put it back")
        }
        for usePrevious in [false, true] where (try? VolumeAccess(target.path, usePrevious: usePrevious)) != nil {
            throw .init(
                .failure, "\(target.path): there is a keybag again: something, a sync client perhaps, put it back")
        }
    }

    // MARK: saying it

    private static func list(_ paths: [HostPath]) -> String { paths.map(\.description).joined(separator: ", ") }

    private static func say(_ target: Target, _ report: Report, isJSON: Bool) {
        if isJSON {
            let fields: [(String, JSONValue)] = [
                ("volume", .string(target.path.description)), ("uuid", .optional(target.volume.map { "\($0)" })),
                ("destroyed", .array(report.destroyed.map { .string($0.description) })),
                ("deviceKey", .optional(target.deviceKey?.description)),
                ("spared", .optional(target.spared?.0.description)), ("verified", .bool(true)),
            ]
            return Output.line(JSONValue.fields(fields).line)
        }
        for path in report.destroyed { Output.line("\(path): overwritten, read back, removed") }
        if let (path, reason) = target.spared { Output.line("\(path): left alone: \(reason)") }
        if target.deviceKey == nil, target.spared == nil {
            Output.line("No device key was here. Destroy copies of it yourself, wherever they are.")
        }
        Output.line(
            "Verified: no key of \(target.path) is left here. Its encrypted files are; remove them when you like.")
        Output.line(
            "Solid-state disks, copy-on-write file systems and snapshots may keep old blocks of what was overwritten; copies and backups of the volume still open with its recovery code, a portable passphrase, or a copy of the device key."
        )
    }
}
