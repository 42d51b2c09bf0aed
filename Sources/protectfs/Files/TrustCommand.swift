// `protectfs trust`: accepts files that are older than this machine has seen them.

import CommandSupport
import Control
import HostSystem
import VolumeAccess

extension Command {
    static let trust = Command(
        "trust", .maintenance, [Operand("PATH", .path)],
        "Accepts a file that is older than this machine has seen it, as after a restore.",
        details: """
            This machine remembers the last version of each file of a volume that it has written or opened. If someone puts an older
            version back, status and the journal say so when it is opened, fsck reports it (older-than-seen), and with -o fresh it
            is not opened. After a restore that is what you want: PATH is a file of a mount, and from now on the version that is
            there now counts. With --all, PATH is in a mount, and that holds for all files of the volume.

            No passphrase is needed, and it works while the volume is locked. Nothing in the store is changed.
            """,
        options: [Option("all", help: "accept all files of the volume")],
        examples: [
            .init("protectfs trust ~/documents/diary.txt", "Accept the version of a file that was restored."),
            .init("protectfs trust --all ~/documents", "Accept a whole volume that was restored from a backup."),
        ], usesKeys: false, run: TrustCommand.run)
}

/// The work of `trust`.
private enum TrustCommand {
    static func run(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let path = arguments.operands[0]
        let (mount, below) = try MountLookup.containing(path)
        let isAll = arguments.has("all")
        if !isAll, below.bytes.isEmpty {
            throw .init(.usage, "\(path): not a file; --all accepts all files of the volume")
        }
        let client = try DaemonConnection.connect(mount, mount.mountPoint)
        let request = TrustRequest(path: isAll ? nil : below.bytes)
        try DaemonConnection.call(path) { () throws(ControlError) in try client.trust(request) }
        return .success
    }
}
