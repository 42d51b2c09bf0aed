// `protectfs class set`: through the attributes of the mount, or through its daemon where files get new keys.

import CLibrary
import CommandSupport
import Control
import HostSystem
import VolumeAccess
import VolumeFormat

extension ClassCommands {
    static func set(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        guard let word = arguments.operands.first else { throw .init(.usage, "CLASS is missing (see --help)") }
        let paths = arguments.operands.dropFirst()
        if !isClass(word), let last = arguments.operands.last, isClass(last) {
            let others = arguments.operands.dropLast().map(\.word).joined(separator: " ")
            throw .init(.usage, "the class comes before the paths: protectfs class set \(last) \(others)")
        }
        let isRecursive = arguments.has("recursive")
        if word == HostPath("\(ProtectionClass.inherit)") {
            if let option = ["reencrypt", "wrap-only"].first(where: arguments.has) {
                throw .init(.usage, "--\(option) has no meaning with inherit, which changes no file")
            }
            return try takeDefaults(paths, isRecursive: isRecursive)
        }
        guard let wanted = ProtectionClass(name: String(decoding: word.bytes, as: UTF8.self)) else {
            throw ErrorMessages.unknownClass(word)
        }
        if arguments.has("reencrypt"), arguments.has("wrap-only") {
            throw .init(.usage, "--reencrypt and --wrap-only cannot be used together")
        }
        let progress = ClassProgressLine(paths, isRecursive: isRecursive)
        let daemon = ClassDaemon(paths)
        var warnings = DefaultWarnings()
        var given: Set<HostPath> = []
        defer { warnings.show() }
        // The line is removed before the warnings.
        defer { progress.line.end() }
        return try forEach(paths, isRecursive: isRecursive, progress: progress.line) {
            (entry, parent) throws(CommandFailure) in
            defer { progress.finish(entry) }
            if entry.isNewer {
                throw .init(
                    .unsupported,
                    "\(entry.path): a newer version of protectfs made it, so its class cannot be changed; use that version"
                )
            }
            if !entry.isDirectory, entry.protectionClass == nil {
                if isRecursive { return }
                throw .init(.unsupported, "\(entry.path): only files and directories have a class")
            }
            if reencrypts(entry, wanted, arguments) {
                try daemon.reencrypt(entry, to: wanted) { progress.show($0.done) }
            } else {
                do throws(CommandFailure) { try write(Array(wanted.canonicalName.utf8), entry) } catch {
                    // The mount refuses a default that a rule forbids, and cannot say why.
                    if entry.isDirectory, let policy = try? Policy.read() {
                        try policy.checkDefaultClass(wanted, "\(entry.path): the default \(wanted.canonicalName)")
                    }
                    throw error
                }
            }
            if entry.isDirectory { given.insert(entry.path) }
            if entry.isDirectory || given.contains(entry.path.parent) { return }
            let now = Entry(
                path: entry.path, place: entry.place, isDirectory: false, protectionClass: wanted, flags: [])
            // A weaker class than the directory's, or one in a directory with a default of its own, was chosen.
            guard !parent.isChosen, Difference(now, parent) == .stronger else { return }
            warnings.take(now, parent, .stronger)
        }
    }

    private static func isClass(_ word: HostPath) -> Bool {
        word == HostPath("\(ProtectionClass.inherit)")
            || ProtectionClass(name: String(decoding: word.bytes, as: UTF8.self)) != nil
    }

    /// Takes the default of directories away: `class set inherit`.
    private static func takeDefaults(
        _ paths: ArraySlice<HostPath>, isRecursive: Bool
    ) throws(CommandFailure) -> ExitCode {
        try forEach(paths, isRecursive: isRecursive) { (entry, _) throws(CommandFailure) in
            guard entry.isDirectory else {
                if isRecursive { return }
                throw .init(.usage, "\(entry.path): only a directory inherits the default of the volume")
            }
            try write(Array("\(ProtectionClass.inherit)".utf8), entry)
        }
    }

    private static func write(_ value: [UInt8], _ entry: Entry) throws(CommandFailure) {
        do throws(SystemError) {
            try ExtendedAttribute.write(AttributeName.protection.description, of: entry.place, value)
        } catch {
            throw explain(error, entry.path)
        }
    }

    /// Whether the file gets a new key. Otherwise only its key is wrapped again.
    private static func reencrypts(_ entry: Entry, _ wanted: ProtectionClass, _ arguments: Arguments) -> Bool {
        if entry.isDirectory || arguments.has("wrap-only") { return false }
        return arguments.has("reencrypt") || entry.protectionClass.map { wanted.isStronger(than: $0) } ?? false
    }
}

/// The daemons of the mounts that one command reaches. Files of the same mount share a connection, and files of the same
/// directory a look at the mount table.
private final class ClassDaemon {
    private var client: ControlClient?
    private var connected: MountEntry?
    private var directory: (path: HostPath, mounted: MountLookup.Directory)?
    private let tops: [HostPath]

    /// - Parameter tops: what is named on the command line.
    init(_ tops: some Sequence<HostPath>) { self.tops = Array(tops) }

    /// Gives a file a new key and a class.
    func reencrypt(
        _ entry: ClassCommands.Entry, to wanted: ProtectionClass, progress: (ClassProgress) -> Void
    ) throws(CommandFailure) {
        let path = entry.path
        let (mount, below) = try path.bytes.count < PATH_MAX ? place(of: path) : deepPlace(of: path)
        let request = ClassRequest(path: below.bytes, class: wanted, mode: .reencrypt)
        if connected == mount {
            do throws(ControlError) { return try send(request, progress) } catch .closed {
                // The daemon closes connections that were idle if it needs others.
            } catch {
                throw DaemonConnection.explain(error, path)
            }
        }
        client = try DaemonConnection.connect(mount, mount.mountPoint)
        connected = mount
        try DaemonConnection.call(path) { () throws(ControlError) in try send(request, progress) }
    }

    private func send(_ request: ClassRequest, _ progress: (ClassProgress) -> Void) throws(ControlError) {
        switch client {
        case .some(let client): try client.changeClass(request, progress: progress)
        case .none: throw .closed
        }
    }

    /// The same for a path that is too long for a system call.
    private func deepPlace(of path: HostPath) throws(CommandFailure) -> (mount: MountEntry, below: HostPath) {
        guard let top = tops.filter({ path.bytes.starts(with: $0.bytes) }).max(by: { $0.bytes.count < $1.bytes.count })
        else {
            throw .init(.failure, "\(path): \(SystemError.reason(of: ENAMETOOLONG))")
        }
        let (mount, below) = try MountLookup.containing(top)
        let rest = HostPath(bytes: Array(path.bytes.dropFirst(top.bytes.count)))
        return (mount, HostPath(components: below.components + rest.components))
    }

    /// The mount that contains a file, and the file's path below the root of its file system.
    private func place(of path: HostPath) throws(CommandFailure) -> (mount: MountEntry, below: HostPath) {
        let parent = path.parent
        if directory?.path != parent { directory = (parent, try MountLookup.Directory(parent)) }
        let name = path.lastComponent
        guard let mounted = directory?.mounted, !mounted.covered.contains(name) else {
            return try MountLookup.containing(path)
        }
        return (mounted.mount, mounted.below.appending(bytes: name.bytes))
    }
}

/// How far `class set` is: the files done of the files found, their bytes, and the time that is left. On a terminal only.
private final class ClassProgressLine {
    /// The weight of a file besides its bytes: about what its syncs cost.
    private static let fileWeight: UInt64 = 1 << 18

    private struct Amount {
        var files: UInt64 = 0
        var bytes: UInt64 = 0
        var work: UInt64 { files &* ClassProgressLine.fileWeight &+ bytes }
    }

    let line = Progress()
    private var found = Amount()
    private var done = Amount()
    private let estimate: Estimate

    /// Looks for the files that the command will change.
    init(_ paths: some Collection<HostPath>, isRecursive: Bool) {
        if line.isShown { for path in paths { Self.find(path, isRecursive, &found, line) } }
        estimate = Estimate()
    }

    private static func find(_ path: HostPath, _ isRecursive: Bool, _ found: inout Amount, _ line: Progress) {
        guard find(WalkedObject(path), &found, line), isRecursive else { return }
        DeepWalk.run(path, (), fail: { _, _ in }) { object, _ in find(object, &found, line) ? () : nil }
    }

    /// Counts a file. True for a directory.
    private static func find(_ object: WalkedObject, _ found: inout Amount, _ line: Progress) -> Bool {
        guard let status = try? FileStatus.read(object.place) else { return false }
        if status.st_mode & S_IFMT == S_IFREG {
            found.files += 1
            found.bytes &+= UInt64(clamping: status.st_size)
            line.show("\(counted(found.files, "file")) found")
        }
        return status.st_mode & S_IFMT == S_IFDIR
    }

    /// Counts an entry, whether its class was changed or not.
    func finish(_ entry: ClassCommands.Entry) {
        guard let size = entry.size else { return }
        done.files += 1
        done.bytes &+= size
        show(0)
    }

    /// Shows that this part of the present file is done.
    func show(_ bytes: UInt64) { line.show(text(bytes)) }

    private func text(_ bytes: UInt64) -> String {
        var now = done
        now.bytes &+= bytes
        // Files may appear or grow meanwhile.
        let files = max(found.files, now.files)
        let size = max(found.bytes, now.bytes)
        let share = estimate.text(now.work, of: found.work)
        return "\(now.files) of \(files) files, \(now.bytes >> 20) of \(size >> 20) MiB, \(share)"
    }
}
