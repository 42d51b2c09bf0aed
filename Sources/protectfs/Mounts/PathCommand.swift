// `protectfs path`: shows where an object of a mount is in the store, and back.

import CLibrary
import CommandSupport
import Control
import HostSystem
import VolumeFormat

extension Command {
    static let path = Command(
        "path", .maintenance, [Operand("PATH", .path)],
        "Shows where a file of a mount is in the volume's directory, or the other way round.",
        details: """
            PATH is any object of a mount: the command prints its path in the volume's directory (the store). With --reverse,
            PATH is an object of the store, and the command prints its path on the mount. A relative one that does not exist
            here is then looked for in the stores of the mounts, because fsck prints such paths. A symbolic link is not
            followed. No passphrase is needed, and it works while the volume is locked.

            A name of more than 175 bytes has a second object in the store, its companion: the same path with .n. Copy both. With
            --missing, the last name need not exist: this is where a deleted file was, and would be again.

            On a terminal, control characters are shown as hexadecimal digits. Elsewhere the path is printed byte for byte;
            --json also gives the bytes as hexadecimal digits.
            """,
        options: [
            .json, Option("reverse", letter: "r", help: "PATH is in the store; show its path on the mount"),
            Option("missing", help: "show where the name would be if it does not exist"),
        ],
        examples: [
            .init("protectfs path ~/documents/diary.txt", "Show where a file is stored in encrypted form."),
            .init("protectfs path --reverse ~/.documents/ENCRYPTED-NAME", "Show which file an encrypted one is."),
        ], usesKeys: false, run: PathCommand.run)
}

/// The work of `path`.
private enum PathCommand {
    static func run(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        let isReverse = arguments.has("reverse")
        if isReverse, arguments.has("missing") {
            throw .init(.usage, "--reverse and --missing cannot be used together")
        }
        let (mount, below) = isReverse ? try MountLookup.storing(path) : try forward(path)
        // A person names a mount, but a path in a store may be the source of anybody's mount.
        let client =
            isReverse
            ? try DaemonConnection.connectProven(mount, mount.mountPoint)
            : try DaemonConnection.connect(mount, mount.mountPoint)
        let request = PathRequest(path: below.bytes, isReverse: isReverse, allowsMissing: arguments.has("missing"))
        let report = try DaemonConnection.call(path) { () throws(ControlError) in try client.path(request) }
        let store = (try? mount.source.resolved()) ?? mount.source
        // A bind mount shows a directory of the file system.
        let shown = HostPath(bytes: report.visible).components.dropFirst(mount.root.components.count)
        let visible = shown.reduce(mount.mountPoint) { $0.appending(bytes: $1) }
        let backing = report.backing.isEmpty ? store : store.appending(bytes: report.backing)
        if arguments.has("json") {
            Output.line(json(report, visible, backing, mount, store).line)
        } else {
            Output.line(path: isReverse ? visible : backing)
        }
        return .success
    }

    private static func forward(_ path: HostPath) throws(CommandFailure) -> (mount: MountEntry, below: HostPath) {
        do throws(CommandFailure) {
            return try MountLookup.containingObject(path)
        } catch {
            guard error.code == .notMounted, (try? MountLookup.storing(path)) != nil else { throw error }
            throw .init(.notMounted, "\(error.message), but in a volume's directory; use --reverse")
        }
    }

    private static func json(
        _ report: PathReport, _ visible: HostPath, _ backing: HostPath, _ mount: MountEntry, _ store: HostPath
    ) -> JSONValue {
        .fields([
            ("path", .string(String(decoding: visible.bytes, as: UTF8.self))),
            ("pathHex", .string(Hexadecimal.text(visible.bytes))),
            ("backingPath", .string(String(decoding: backing.bytes, as: UTF8.self))),
            ("backingPathHex", .string(Hexadecimal.text(backing.bytes))),
            (
                "companion",
                report.companion.map { .path(backing.parent.appending(bytes: $0)) } ?? .null
            ),
            ("kind", .optional(report.kind)), ("name", .string(report.standing)),
            ("mountPoint", .path(mount.mountPoint)), ("volume", .path(store)),
        ])
    }
}
