// What `fsck` says of a check that continues an interrupted one, or can be continued. `--json` prints the words.

import CommandSupport
import HostSystem
import ProtectedVolume
import VolumeCheck
import VolumeFormat

enum FsckResumption {
    /// The options that both runs must have in common.
    private static let options = ["read-only", "repair", "quarantine", "no-unlock"]

    /// The command that continues this one.
    static func command(_ arguments: Arguments) -> String {
        let words = options.filter(arguments.has).map { "--\($0) " }.joined()
        return "protectfs fsck --resume \(words)\(arguments.operands[0].word)"
    }

    static func text(_ start: Result<Int64, CheckRestart>) -> String {
        switch start {
        case .success(let time): "continuing the check of \(WallClock.local(time))\n"
        case .failure(let restart): "everything is read, because \(reason(restart))\n"
        }
    }

    /// Whether a check that was interrupted can be continued.
    static func text(_ unrecorded: CheckUnrecorded?, _ command: String) -> String {
        guard let unrecorded else { return "Continue with: \(command)\n" }
        return "This check cannot be continued, because \(reason(unrecorded)).\n"
    }

    static func word(_ start: Result<Int64, CheckRestart>?) -> String? {
        guard case .failure(let restart) = start else { return nil }
        return switch restart {
        case .noRecord: "none"
        case .damaged: "damaged"
        case .otherOptions: "options"
        case .otherKeys: "classes"
        case .changed: "changed"
        case .otherStore: "store"
        case .clock: "clock"
        case .unrecorded(let reason): word(reason)
        }
    }

    static func word(_ unrecorded: CheckUnrecorded) -> String {
        switch unrecorded {
        case .noState: "no-state"
        case .store: "store-type"
        case .clock: "clock"
        case .file: "file"
        case .quick: "quick"
        case .sync: "sync"
        }
    }

    private static func reason(_ restart: CheckRestart) -> String {
        switch restart {
        case .noRecord: "no check of this volume was interrupted on this machine"
        case .damaged: "the record of the interrupted check is damaged, or of another version"
        case .otherOptions: "the interrupted check had other options"
        case .otherKeys: "other classes were open in the interrupted check"
        case .changed: "the volume was written, or checked completely, since the interrupted check"
        case .otherStore: "the interrupted check was of another directory"
        case .clock: "the clock is behind the time of the interrupted check"
        case .unrecorded(let reason): Self.reason(reason)
        }
    }

    private static func reason(_ unrecorded: CheckUnrecorded) -> String {
        switch unrecorded {
        case .noState: "this machine has no state file for the volume"
        case .store: "file systems of the store's type may not note when a file was changed, or by another clock"
        case .clock: "the clock went back"
        case .file(let errno):
            "the record of it in \(SystemPaths.data) cannot be used: \(SystemError.reason(of: errno.rawValue))"
        case .quick: "a quick check is short, and is begun again"
        case .sync(let errno): "the store cannot be synchronized: \(SystemError.reason(of: errno.rawValue))"
        }
    }
}
