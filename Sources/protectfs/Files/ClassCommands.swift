// `protectfs class get`, `class set` and `class list`: protection classes through the attributes of the mount.

import CLibrary
import CommandSupport
import Control
import HostSystem
import VolumeFormat

extension Option {
    fileprivate static let recursive = Option(
        "recursive", letter: "R", help: "include everything below each directory")
}

extension Command {
    static let classGet = Command(
        "class get", .classes, [.paths], "Shows the class of files and the default class of directories.",
        options: [.json],
        examples: [.init("protectfs class get ~/documents/diary.txt", "Show the class of a file.")], usesKeys: false,
        run: ClassCommands.get)

    static let classSet = Command(
        "class set", .classes, [Operand("CLASS", Value.classOrInherit.kind), .paths],
        "Sets the class of files, and the class that directories give to new entries.",
        details: """
            CLASS is complete (A), completeUnlessOpen (B), completeWhenUserInactive (7), completeUntilFirstUserAuthentication (C) or none
            (D): as a name, a short name (unless-open, when-inactive, until-first-unlock), a letter or digit, or the raw value of iOS (NSFileProtectionComplete, …). On the root of the mount, it sets the
            default class of the volume. The word inherit takes the default of directories away: new files in them then get the
            default of the volume; files keep their class. Setting a stronger class re-encrypts the file, so that no old copy of its header opens it. The
            command warns if new files beside a file get another class.
            """,
        options: [
            .recursive,
            Option("reencrypt", help: "re-encrypt files even if the new class is not stronger"),
            Option("wrap-only", help: "change only the class, as setfattr does; this works with hard links"),
        ],
        examples: [
            .init("protectfs class set complete ~/documents/diary.txt", "Close a file whenever the volume is locked."),
            .init(
                "protectfs class set -R B ~/documents/mail",
                "Set a directory and all files in it to completeUnlessOpen."),
        ], usesKeys: false, run: ClassCommands.set)

    static let classList = Command(
        "class list", .classes, [.paths], "Lists classes, and marks files that differ from their directory's default.",
        details: """
            The marks: weak (weaker than new files there, which get the default of the directory or else of the volume), strong
            (a file stronger than that), exposed (an old copy of the header may open the file), chosen (someone has set the
            class). The command warns of directories with weak or strong files, except with --json.
            """,
        options: [.recursive, .json],
        examples: [.init("protectfs class list -R ~/documents", "List all files and directories.")], usesKeys: false,
        run: ClassCommands.list)
}

/// The work of the commands on classes.
enum ClassCommands {
    /// The class facts of one path.
    struct Entry {
        let path: HostPath
        /// Its path for system calls.
        let place: HostPath
        let isDirectory: Bool
        let protectionClass: ProtectionClass?
        /// Whether a newer version made it, so that its class is not known.
        var isNewer = false
        /// explicit, exposed, holes: the words of the daemon's unlisted attribute. Empty if they were not asked for.
        let flags: Set<String>
        /// A file's length; nil if it is not a regular file, or not known.
        var size: UInt64?
    }

    /// The class of new files in a directory. Nil if the daemon does not tell.
    struct Inherited {
        let protectionClass: ProtectionClass?
        /// Whether someone has given the directory a default of its own.
        let isChosen: Bool

        /// - Parameter usual: the class in directories without a default.
        init(_ own: ProtectionClass?, _ usual: ProtectionClass?) {
            (protectionClass, isChosen) = (own ?? usual, own != nil)
        }
    }

    static func get(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        try forEach(arguments.operands, isRecursive: false, withFlags: arguments.has("json")) { entry, parent in
            if arguments.has("json") {
                Output.line(json(entry, Difference(entry, parent)).line)
            } else {
                Output.line("\(entry.path): \(describe(entry))")
            }
        }
    }

    static func list(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let isJSON = arguments.has("json")
        var table = Table("CLASS", "MARKS", "PATH")
        var rows = JSONList()
        var warnings = DefaultWarnings()
        let isRecursive = arguments.has("recursive")
        let code = try forEach(arguments.operands, isRecursive: isRecursive, contents: true, withFlags: true) {
            entry, parent in
            let difference = Difference(entry, parent)
            if isJSON { return rows.add(json(entry, difference)) }
            warnings.take(entry, parent, difference)
            var marks: [String] = []
            if difference == .weaker { marks.append("weak") }
            if difference == .stronger { marks.append("strong") }
            if entry.flags.contains("exposed") { marks.append("exposed") }
            if entry.flags.contains("explicit"), !entry.isDirectory { marks.append("chosen") }
            let letter = entry.protectionClass.map { "\($0.letter) \($0.shortName)" } ?? (entry.isNewer ? "newer" : "–")
            table.add(letter, marks.joined(separator: ","), entry.path.description + (entry.isDirectory ? "/" : ""))
            if let part = table.takeFullPart() { Output.print(part) }
        }
        if isJSON {
            rows.end()
        } else {
            Output.print(table.takePart())
            warnings.show()
        }
        return code
    }

    private static func json(_ entry: Entry, _ difference: Difference) -> JSONValue {
        .fields([
            ("path", .location(entry.path)), ("directory", .bool(entry.isDirectory)),
            ("class", .optional(entry.protectionClass?.canonicalName)), ("newer", .bool(entry.isNewer)),
            ("weakerThanDirectory", .bool(difference == .weaker)),
            ("strongerThanDirectory", .bool(difference == .stronger)),
            ("keyExposed", .bool(entry.flags.contains("exposed"))),
            ("explicit", .bool(entry.flags.contains("explicit"))), ("holes", .bool(entry.flags.contains("holes"))),
        ])
    }

    private static func describe(_ entry: Entry) -> String {
        if entry.isNewer { return "not known, because a newer version of protectfs made it; use that version" }
        return switch (entry.isDirectory, entry.protectionClass) {
        case (true, nil): "no default for new entries"
        case (true, .some(let value)): "default for new entries: \(value.canonicalName) (\(value.letter))"
        case (false, nil): "no class (only files and directories have one)"
        case (false, .some(let value)): "\(value.canonicalName) (\(value.letter))\(closed(value, entry.path))"
        }
    }

    /// The reason why a file of the class cannot be opened now. Empty if it can.
    private static func closed(_ protectionClass: ProtectionClass, _ path: HostPath) -> String {
        let isInactive = protectionClass == .completeWhenUserInactive
        guard let volume = stateOfMount(path),
            let state = isInactive ? stateOfMount(path, AttributeName.inactiveState) : volume,
            !Access.isAllowed(.open, class: protectionClass, state: state)
        else { return "" }
        return ", closed while the volume is \(volume.words)"
    }

    /// Reads one path.
    ///
    /// - Parameter withFlags: costs a request more.
    private static func read(_ object: WalkedObject, withFlags: Bool) throws(CommandFailure) -> Entry {
        let (path, place) = (object.path, object.place)
        do throws(SystemError) {
            let status = try FileStatus.read(place)
            let kind = status.st_mode & S_IFMT
            guard kind == S_IFREG || kind == S_IFDIR else {
                return Entry(path: path, place: place, isDirectory: false, protectionClass: nil, flags: [])
            }
            let value: [UInt8]?
            do throws(SystemError) {
                let name = AttributeName.protection.description
                value = try ExtendedAttribute.read(name, of: place, isProtected: true)
            } catch {
                guard error.code == EOPNOTSUPP else { throw error }
                return Entry(
                    path: path, place: place, isDirectory: kind == S_IFDIR, protectionClass: nil, isNewer: true,
                    flags: [])
            }
            let isAsked = withFlags && kind == S_IFREG
            let flags = isAsked ? try ExtendedAttribute.read(AttributeName.flags.description, of: place) ?? [] : []
            let words = String(decoding: flags, as: UTF8.self).split(whereSeparator: { $0 == " " || $0 == "," })
            return Entry(
                path: path, place: place, isDirectory: kind == S_IFDIR,
                protectionClass: value.flatMap { ProtectionClass(name: String(decoding: $0, as: UTF8.self)) },
                flags: Set(words.map { $0 == "key-exposed" || $0 == "keyExposed" ? "exposed" : String($0) }),
                size: kind == S_IFREG ? UInt64(clamping: status.st_size) : nil)
        } catch {
            throw explain(error, path)
        }
    }

    static func explain(_ error: SystemError, _ path: HostPath) -> CommandFailure {
        switch error.code {
        case ENOTCONN:
            return .init(
                .notMounted,
                "\(path): the daemon of the mount has died; remove the mount with protectfs unmount MOUNTPOINT")
        case EACCES:
            if let state = stateOfMount(path), state != .unlocked {
                return .init(
                    .locked,
                    "\(path): not possible while the volume is \(state.words); unlock it first (protectfs unlock MOUNTPOINT)"
                )
            }
            return .init(.failure, "\(path): permission denied")
        case EOPNOTSUPP:
            return .init(
                .unsupported,
                "\(path): this file cannot have a class, this version does not support the class, or a newer version of protectfs made the file"
            )
        case EROFS: return .init(.failure, "\(path): the mount is read-only")
        default: return .init(.failure, "\(path): \(error.reason)")
        }
    }

    private static func stateOfMount(
        _ path: HostPath, _ attribute: StaticString = AttributeName.state
    ) -> VolumeState? {
        guard let place = try? MountLookup.containing(path),
            let value = try? ExtendedAttribute.read(attribute.description, of: place.mount.mountPoint)
        else { return nil }
        return VolumeState(attributeValue: String(decoding: value, as: UTF8.self))
    }

    /// Calls `body` with each path and the class of new files beside it, and with the paths below it if asked. After an error
    /// it prints the error, continues, and sets the exit code.
    ///
    /// - Parameter progress: is removed from the terminal before an error.
    static func forEach(
        _ paths: some Collection<HostPath>, isRecursive: Bool, contents: Bool = false, withFlags: Bool = false,
        progress: Progress? = nil, _ body: (Entry, Inherited) throws(CommandFailure) -> Void
    ) throws(CommandFailure) -> ExitCode {
        guard !paths.isEmpty else { throw .init(.usage, "PATH is missing (see --help)") }
        var code = ExitCode.success
        var classes = UsualClasses()
        func fail(_ error: CommandFailure) {
            progress?.end()
            Output.fail(error)
            if code == .success { code = error.code }
        }
        /// The class of new files in the object, if it is a directory.
        func visit(_ object: WalkedObject, _ inherited: Inherited, _ usual: ProtectionClass?) -> Inherited? {
            do throws(CommandFailure) {
                let entry = try read(object, withFlags: withFlags)
                try body(entry, inherited)
                if entry.isNewer, code == .success { code = .unsupported }
                return entry.isDirectory ? Inherited(entry.protectionClass, usual) : nil
            } catch {
                fail(error)
                return nil
            }
        }
        for path in paths {
            do throws(CommandFailure) {
                let usual = try classes.find(path)
                let parent = try? read(WalkedObject(path.parent), withFlags: false)
                let inherited = Inherited(parent?.protectionClass, usual)
                guard let own = visit(WalkedObject(path), inherited, usual), isRecursive || contents else { continue }
                DeepWalk.run(path, own, fail: { fail(explain($0, $1)) }) { object, level in
                    let below = visit(object, level, usual)
                    return isRecursive ? below : nil
                }
            } catch {
                fail(error)
            }
        }
        return code
    }

    /// The classes of new files in directories without a default, asked once for each mount.
    private struct UsualClasses {
        /// By the device number of the mount.
        private var known: [UInt64: ProtectionClass?] = [:]

        /// That of the mount that contains `path`. Nil if the daemon does not tell.
        mutating func find(_ path: HostPath) throws(CommandFailure) -> ProtectionClass? {
            // A link may lead to another mount.
            if let status = try? FileStatus.read(path), status.st_mode & S_IFMT != S_IFLNK,
                let found = known[UInt64(status.st_dev)]
            {
                return found
            }
            let mount = try MountLookup.containing(path).mount
            if let found = known[mount.deviceNumber] { return found }
            let client = try? DaemonConnection.connect(mount, mount.mountPoint)
            let found = (try? client?.status())?.defaultClass
            known[mount.deviceNumber] = .some(found)
            return found
        }
    }
}

extension VolumeState {
    /// The state in words, as in "before first unlock".
    fileprivate var words: String { String("\(attributeValue)".map { $0 == "-" ? " " : $0 }) }
}
