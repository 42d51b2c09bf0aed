// The mounted volume that takes an import: where it is mounted already, or in a private place for this command.

import BackingStore
import CLibrary
package import CommandSupport
package import HostSystem
import Keybag
import VolumeAccess
import VolumeFormat

/// A directory of a mount that takes files. `end` unmounts what was mounted for this import.
///
/// A private place follows from the volume's ID. So an import that was killed finds the mount that it has left.
package final class ImportPlace {
    /// The volume as the user has named it.
    package let volume: HostPath
    /// The mount that takes the files.
    package let entry: MountEntry
    private let directory: HostPath
    private let privatePlace: HostPath?

    /// Finds the mount of `path`, which is a volume or a directory of a mount, or mounts the volume with the credential of the
    /// options.
    package init(_ path: HostPath, _ arguments: Arguments) throws(CommandFailure) {
        volume = path
        // A store may lie on a mount, too.
        if !MountLookup.isVolume(path), let mount = try? MountLookup.containing(path).mount {
            (entry, directory, privatePlace) = (mount, path, nil)
            try Self.requireUnlocked(mount)
            return
        }
        let look = Result { () throws(SystemError) in try FileStatus.read(path) }
        if case .failure(let error) = look, error.code == ENOENT {
            throw .init(
                .failure,
                "\(path): neither a volume nor a directory in a mount; protectfs init \(path.word) makes a volume there"
            )
        }
        let found = try FoundVolume(path)
        let place = try Self.privatePlace(found.bag.volumeID)
        // Anyone can make a mount that names this volume as its source.
        let mounts = MountLookup.of(volume: path).filter { $0.root == HostPath("/") && $0.owner == geteuid() }
        if let mount = mounts.first(where: { $0.mountPoint != place }) {
            (entry, directory, privatePlace) = (mount, mount.mountPoint, nil)
            try Self.requireUnlocked(mount)
            return
        }
        if let left = mounts.first, MountLookup.isDead(left) { Self.unmount(place) }
        let secrets = (Option.credentials + [.deviceKey, .acceptKeybag]).flatMap { option in
            option.value == nil
                ? arguments.has(option.name) ? [Array("--\(option.name)".utf8)] : []
                : arguments.all(option.name).map { Array("--\(option.name)=".utf8) + $0.bytes }
        }
        if let left = mounts.first, MountLookup.all().contains(left) {
            if !Self.isUnlocked(left) {
                let words = secrets.filter { !$0.starts(with: "--accept".utf8) && !$0.starts(with: "--device".utf8) }
                try Self.run([Array("unlock".utf8)] + words + [Array("--".utf8), place.bytes])
            }
            (entry, directory, privatePlace) = (left, place, place)
            return
        }
        do throws(SystemError) { try makeDirectories(place) } catch { throw ErrorMessages.system(error) }
        do throws(CommandFailure) {
            try Self.run([Array("mount".utf8)] + secrets + [Array("--".utf8), path.bytes, place.bytes])
        } catch {
            try? FileChange.removeDirectory(place)
            throw error
        }
        guard let mount = try? MountTable.entry(at: place), mount.isProtectfs else {
            throw .init(.failure, "\(path): the private mount is missing")
        }
        (entry, directory, privatePlace) = (mount, place, place)
    }

    /// The directory for the files: `into` below the one that the user has named.
    ///
    /// - Parameter makes: whether it is made if it is missing.
    package func directory(_ into: HostPath?, makes: Bool) throws(CommandFailure) -> HostPath {
        guard let into else { return directory }
        let parts = into.components
        guard !parts.contains(Array("..".utf8)) else { throw .init(.usage, "--into \(into): must not contain ..") }
        let whole = parts.reduce(directory) { $0.appending(bytes: $1) }
        do throws(SystemError) { if makes { try makeDirectories(whole) } } catch {
            throw .init(.failure, "--into \(into): \(error.reason)")
        }
        return whole
    }

    /// Unmounts a private mount. Gives what has failed. That is a failure of the import, because not everything may be on disk
    /// then.
    package func end() -> (place: HostPath, text: String)? {
        guard let privatePlace else { return nil }
        do throws(CommandFailure) { try Self.run([Array("unmount".utf8), Array("--".utf8), privatePlace.bytes]) } catch
        {
            let reason = Output.reportsJSON ? ": \(error.message)" : ""
            return (privatePlace, "the private mount has not ended\(reason); protectfs unmount ends it")
        }
        try? FileChange.removeDirectory(privatePlace)
        return nil
    }

    private static func privatePlace(_ volume: VolumeID) throws(CommandFailure) -> HostPath {
        do throws(RuntimeDirectoryError) {
            return try SystemPaths.makeRuntime().appending("import-\(volume)")
        } catch {
            throw .init(
                .failure,
                "there is no directory for a private mount here; mount the volume, and give the mount point")
        }
    }

    private static func isUnlocked(_ mount: MountEntry) -> Bool {
        let state = try? ExtendedAttribute.read("\(AttributeName.state)", of: mount.mountPoint)
        return state.map { $0 == Array("unlocked".utf8) } ?? false
    }

    private static func requireUnlocked(_ mount: MountEntry) throws(CommandFailure) {
        guard isUnlocked(mount) else {
            let point = mount.mountPoint
            throw .init(.locked, "\(point): is not unlocked; protectfs unlock \(point.word) unlocks it")
        }
    }

    private static func unmount(_ place: HostPath) {
        try? run([Array("unmount".utf8), Array("--".utf8), place.bytes])
        try? FileChange.removeDirectory(place)
    }

    /// Runs a command of this program, which may ask at the terminal. With --json this command says what it has said.
    private static func run(_ words: [[UInt8]]) throws(CommandFailure) {
        let ending: ChildProcess.Ending
        var reason: String?
        do throws(SystemError) {
            // Not by its path, where an upgrade may have put another program meanwhile.
            let program = HostPath("/proc/self/exe")
            let arguments = [Array("protectfs".utf8)] + words
            if Output.reportsJSON {
                var pipe = try Pipe()
                guard let reading = pipe.reading.take(), let writing = pipe.writing.take() else {
                    preconditionFailure("a new pipe has two ends")
                }
                let child = try ChildProcess.start(program, arguments, descriptors: [(2, writing.number)])
                _ = consume writing
                // At once, because it may tell a person what to do.
                let watch = try ProcessWatch(child.id)
                var hasEnded = false
                while !hasEnded {
                    hasEnded = watch.waitForEnd(seconds: 0)
                    let lines = Output.lines(waitingIn: reading)
                    for line in lines { Output.note(line) }
                    reason = lines.last ?? reason
                }
                ending = try child.wait()
            } else {
                ending = try ChildProcess.start(program, arguments).wait()
            }
        } catch {
            throw ErrorMessages.system(error)
        }
        if ending == .exited(0) { return }
        guard case .exited(let number) = ending else { throw .init(.failure, "the mount was interrupted") }
        throw .init(ExitCode(number: number), reason ?? "the command above has failed, so nothing more is done")
    }
}
