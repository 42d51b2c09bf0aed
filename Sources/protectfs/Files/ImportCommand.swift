// `protectfs import`: copies a directory into a volume, and compares everything afterwards.

import BackingStore
import CLibrary
import CommandSupport
import HostSystem
import TreeImport
import VolumeFormat

extension Command {
    static let importTree = Command(
        "import", .maintenance, [Operand("SOURCE", .directory), .volume],
        "Copies a directory into a volume, and verifies the copy.",
        details: """
            SOURCE is a directory, for example a mounted volume of gocryptfs, securefs, encfs or CryFS. VOLUME is a volume, or a directory of a mounted one. If the volume is not mounted, it is mounted in a private place for as
            long as the command runs.

            With --class, files that match a pattern get a class before the first byte is written, and directories that match
            give it to new files. The first rule that matches counts. A pattern without a slash is compared with the name; one
            with a slash is compared with the path in SOURCE, and matches everything below a directory.

            An import that was interrupted or killed continues when the same command is given again. What is in the volume
            already and differs is never replaced without --replace. The exit code is 1 if something could not be copied or differs.
            """,
        more: """
            The command copies contents with their holes, names, modes, times, extended attributes, ACLs, hard links, symbolic
            links and special files; as root, also owners. A file gets its name when it is complete. Then everything is
            written to disk, read again, and compared byte for byte with the source. Other file systems that are mounted below
            SOURCE are left out, and named.
            """,
        options: [
            Option(
                "class", value: .classRule, repeats: true,
                help: "give files that match PATTERN this class"),
            Option(
                "into", value: Value(name: "DIRECTORY", kind: .text), standard: "the volume's root",
                help: "copy into this directory of the volume, which is made if it is missing"),
            Option("replace", help: "replace files that differ from the source"),
            Option("move", help: "then remove from the source what is in the volume"),
            Option("verify-only", help: "copy nothing; only compare the volume with the source"),
            .json, .deviceKey,
        ] + Option.credentials + [.acceptKeybag],
        examples: [
            .init("protectfs import ~/Documents ~/.documents", "Copy a directory; ask for the passphrase."),
            .init(
                "protectfs import --class complete:'*.pdf' --class complete:medical/ ~/old ~/.documents",
                "The same, with class complete for PDF files and everything below medical."),
        ], run: ImportCommand.run)
}

/// The work of `import`.
private enum ImportCommand {
    static func run(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let (path, volume) = (arguments.operands[0], arguments.operands[1])
        if arguments.has("verify-only"), arguments.has("replace") {
            throw .init(.usage, "--verify-only and --replace cannot be used together")
        }
        if arguments.has("verify-only"), arguments.has("move") {
            throw .init(.usage, "--verify-only and --move cannot be used together")
        }
        let rules = try ImportRules(arguments.all("class"))
        try refuseStore(path)
        let source = try open(path)
        let isCopying = !arguments.has("verify-only")
        let report = ImportReport(path, isCopying: isCopying)
        let interruption = Interruption(exit: ExitCode.failure.number)
        var removal: SourceRemoval?
        let place = try ImportPlace(volume, arguments)
        do throws(CommandFailure) {
            let target = try open(try place.directory(arguments.path("into"), makes: isCopying))
            try refuseOverlap(path, source, place, target)
            let walk = try ImportWalk(
                from: source, to: target, store: try open(place.entry.source), rules: rules,
                replaces: arguments.has("replace"), report: report,
                interruption: interruption)
            if arguments.has("move") { walk.compared = [:] }
            if isCopying { try walk.copy() }
            try walk.verify(mends: isCopying)
            if arguments.has("move") { removal = SourceRemoval(after: walk, report) }
            report.progress.end()
        } catch {
            report.progress.end()
            _ = place.end()
            throw error
        }
        // What is said below is true only after that.
        if let failure = place.end() { report.fail(failure.place, failure.text) }
        if removal != nil {
            report.removed = 0
            if !report.isIncomplete { removal?.run(source, interruption) }
        }
        return report.tell(place.volume, isJSON: arguments.has("json"))
    }

    private static func open(_ path: HostPath) throws(CommandFailure) -> HostDirectory {
        guard let text = String(validating: path.bytes, as: UTF8.self) else {
            throw .init(.usage, "\(path): the path is not UTF-8 text; change to the directory, and give .")
        }
        do throws(Errno) { return try HostDirectory.open(path: text) } catch {
            throw .init(.failure, "\(path): \(SystemError.reason(of: error.rawValue))")
        }
    }

    /// The files by which the directory of an encrypted file system is known, and the program that mounts it.
    private static let stores = [
        ("\(ReservedName.keybag)", "protectfs"), ("gocryptfs.conf", "gocryptfs"), (".encfs6.xml", "encfs"),
        (".securefs.json", "securefs"), (".config.pb", "securefs"), ("cryfs.config", "cryfs"),
    ]

    /// Refuses an encrypted store: a copy of it would be encrypted twice, and need its program for ever.
    private static func refuseStore(_ path: HostPath) throws(CommandFailure) {
        for (name, program) in stores where (try? FileStatus.read(path.appending(name))) != nil {
            throw .init(
                .usage,
                "\(path): holds the encrypted files of \(program), not their contents; mount it with \(program), and import the mount"
            )
        }
    }

    /// Refuses a source that the volume contains, or that contains the volume.
    private static func refuseOverlap(
        _ path: HostPath, _ source: HostDirectory, _ place: ImportPlace, _ target: HostDirectory
    ) throws(CommandFailure) {
        // A link in the volume, or another mount, may lead elsewhere.
        guard (try? target.status().device) == place.entry.deviceNumber else {
            throw .init(.usage, "the directory that would take the files is not in the volume")
        }
        let from = (try? path.resolved()) ?? path
        let store = (try? place.entry.source.resolved()) ?? place.entry.source
        if from.isInside(place.entry.mountPoint) {
            throw .init(.usage, "\(path): lies in the volume that would take it")
        }
        if from.isInside(store) || store.isInside(from) {
            throw .init(.usage, "\(path): the encrypted files of the volume lie in it, or it lies in them")
        }
    }
}
