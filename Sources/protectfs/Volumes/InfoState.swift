// What `info` shows of this machine's state file: its path, the epochs, and which crash damage is tolerated.

import CommandSupport
import Control
import HostSystem
import Keybag
import VolumeAccess
import VolumeFormat

/// This machine's record of a volume, for people and programs.
struct InfoState {
    /// What an open epoch belongs to.
    private enum Owner: String {
        /// A mount that lives.
        case mounted
        /// A mount of another user, or one that does not answer, may have it.
        case unknown
        /// No mount: its mount crashed, or could not finish a file.
        case endedBadly
    }

    /// The most open epochs that a person is shown.
    private static let mostRows = 8

    /// The state file. Nil if it cannot be found out which one it is.
    let path: HostPath?
    private let layout: StateFileLayout?
    private let problem: CommandFailure?
    private let epochs: [(number: UInt32, owner: Owner)]

    /// Reads the state file, and asks the volume's mounts for their epochs.
    init(_ access: FoundVolume, _ mounts: [MountEntry]) {
        var (path, layout, problem): (HostPath?, StateFileLayout?, CommandFailure?)
        do throws(CommandFailure) {
            path = LocalFile.state(of: access.bag.volumeID, number: try access.place().number)
            layout = try LocalState.load(access)?.layout
        } catch { problem = error }
        (self.path, self.layout, self.problem) = (path, layout, problem)
        let open = layout?.openEpochs.sorted() ?? []
        let answers = open.isEmpty ? [] : mounts.map(Self.ownEpochs)
        let own = Set(answers.flatMap { $0 ?? [] })
        epochs = open.map { epoch in
            (epoch, own.contains(epoch) ? .mounted : answers.contains(nil) ? .unknown : .endedBadly)
        }
    }

    /// The epochs of a mount. Nil if it does not answer.
    static func ownEpochs(_ mount: MountEntry) -> [UInt32]? {
        guard !MountLookup.isDead(mount) else { return [] }
        guard let client = try? DaemonConnection.connectProven(mount, mount.mountPoint), let info = try? client.info()
        else { return nil }
        return info["ownEpochs"]?.elements?.compactMap { $0.integer.flatMap { UInt32(exactly: $0) } }
    }

    /// Whether the machine has a state file for the volume.
    var isKnown: Bool { layout != nil }
    /// Whether it pins a keybag.
    var isPinned: Bool { layout?.isPinned == true }
    /// Success, or the state file's failure, which standard error has shown.
    var code: ExitCode { problem?.code ?? .success }

    /// The fields of `info --json`.
    var fields: [(String, JSONValue)] {
        [
            ("stateFile", .optional(path: isKnown ? path : nil)),
            ("stateFileProblem", .optional(problem?.message)), ("knownHere", .bool(isKnown)),
            ("keybagPinned", .bool(isPinned)), ("toleratesEverything", .bool(layout?.toleratesEverything ?? true)),
            (
                "highestEpoch",
                layout.flatMap { $0.highestEpoch == 0 ? nil : .integer(Int64($0.highestEpoch)) } ?? .null
            ),
            (
                "openEpochs",
                .array(
                    epochs.map { epoch in
                        [
                            "epoch": .integer(Int64(epoch.number)),
                            "time": .integer(Epoch.time(of: epoch.number)), "state": .string(epoch.owner.rawValue),
                        ]
                    })
            ),
        ]
    }

    /// Adds the rows of `info`.
    func add(to table: inout Table) {
        guard let layout else {
            table.add(
                "State",
                problem == nil
                    ? "not seen on this machine before: crash damage is tolerated until a complete fsck"
                    : "the state file cannot be used")
            return
        }
        if let path { table.add("State file", path.description) }
        table.add(
            "State",
            layout.toleratesEverything
                ? "crash damage is tolerated in every file until a complete fsck"
                : epochs.isEmpty
                    ? "no session is open or ended with a crash"
                    : "crash damage is tolerated in files of sessions that ended with a crash, until protectfs fsck --quick"
        )
        if layout.highestEpoch > 0 { table.add("Highest epoch", Self.text(layout.highestEpoch)) }
        for epoch in epochs.suffix(Self.mostRows) {
            table.add("Open epoch", "\(Self.text(epoch.number)), \(Self.text(epoch.owner))")
        }
        if epochs.count > Self.mostRows { table.add("", "and \(epochs.count - Self.mostRows) before these") }
    }

    static func text(_ epoch: UInt32) -> String { "\(epoch) (\(WallClock.local(Epoch.time(of: epoch))))" }

    private static func text(_ owner: Owner) -> String {
        switch owner {
        case .mounted: "of a mount"
        case .unknown: "of a mount that does not answer, or ended with a crash"
        case .endedBadly: "ended with a crash"
        }
    }
}
