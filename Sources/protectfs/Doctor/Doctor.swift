// `protectfs doctor`: what on this machine gives plaintext away, or makes a mount weak, and what to do about it.

import CLibrary
import CommandSupport
import Control
import HostSystem
import VolumeAccess

extension Command {
    static let doctor = Command(
        "doctor", .maintenance, [Operand("MOUNTPOINT", .mountPoint, .optional)],
        "Shows what on this machine gives plaintext away or makes a mount weak.",
        details: """
            It prints one line for each weakness, with what to do about it. Without a mount point, all of your mounts are looked at. It reads
            the names and classes of all files of a mount, and no contents. It looks at the desktop of the user who runs it. It
            changes nothing, and the exit code is 0 whatever it finds. It also says if io_uring is worth a try.
            """,
        options: [.json],
        examples: [
            .init("protectfs doctor", "Look at the machine and at all of your mounts."),
            .init("protectfs doctor --json ~/documents", "One mount, for a script."),
        ], usesKeys: false,
        run: { (arguments) throws(CommandFailure) in
            let mounts: [MountEntry]
            if let path = arguments.operands.first {
                let mount = try KnownMount.mounted(at: path)
                // Its files and its store may be on a file system that never answers, and the traces are in the user's home.
                guard mount.owner == geteuid() else {
                    throw .init(
                        .failure, "\(path): this mount belongs to another user; run protectfs doctor as that user")
                }
                mounts = [mount]
            } else {
                mounts = try MountLookup.knownOwn().filter { $0.owner == geteuid() }
            }
            var weaknesses = MachineChecks.all()
            if arguments.operands.isEmpty { weaknesses += Weakness.formerPlace() + KnownMount.all().map(Weakness.init) }
            for mount in mounts { weaknesses += MountChecks(mount).all() }
            if arguments.has("json") {
                Output.line(JSONValue.array(weaknesses.map(\.json)).line)
                return .success
            }
            for weakness in weaknesses { Output.line(weakness.text) }
            if weaknesses.isEmpty {
                Output.line("Nothing was found\(mounts.isEmpty ? "; no volume is mounted" : "").")
            }
            return .success
        })
}

/// Something that weakens protection, or makes mounts slow.
struct Weakness {
    /// What was looked at. The raw value is the word of `doctor --json`.
    enum Check: String {
        case swap, hibernation, coreDumps, freedMemory, lockedMemory, allowOther, ioUring
        case notMounted, daemon, store, deviceKey, keybagCopy, passwordHash, loopDevice, recentFiles, thumbnails,
            weakDefault
    }

    let check: Check
    /// The file, directory or device that it is about.
    let place: HostPath?
    /// What is wrong, as a clause.
    let problem: String
    /// What to do.
    let advice: String

    /// - Parameter place: nil if it is about the machine.
    init(check: Check, place: HostPath?, problem: String, advice: String) {
        (self.check, self.place, self.problem, self.advice) = (check, place, problem, advice)
    }

    /// A volume that was mounted before a restart, or before its daemon died, and is not.
    fileprivate init(_ known: KnownMount) {
        let isWritable = (try? FileStatus.read(known.mountPoint)).map { $0.st_mode & 0o222 != 0 } ?? false
        self.init(
            check: .notMounted, place: known.mountPoint,
            problem: "the volume \(known.volume) is not mounted there"
                + (isWritable ? ", so what programs save there is not encrypted" : ""), advice: known.command)
    }

    /// Device keys where an earlier version kept them, which every command tries to move.
    fileprivate static func formerPlace() -> [Weakness] {
        let place = SystemPaths.formerData
        guard SystemPaths.holdsVolumes(place) else { return [] }
        return [
            Weakness(
                check: .deviceKey, place: place,
                problem: "programs that clear their data can delete the device keys and state files there",
                advice: "move each file whose name is missing in ~/.local/state/protectfs to that directory")
        ]
    }

    /// One line for people.
    var text: String { Output.oneLine("\(place.map { "\($0): " } ?? "")\(problem); \(advice)") }

    /// An object for programs.
    var json: JSONValue {
        .fields([
            ("check", .string(check.rawValue)), ("path", .optional(path: place)), ("problem", .string(problem)),
            ("advice", .string(advice)),
        ])
    }
}
