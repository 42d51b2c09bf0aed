// Why a request to a volume failed.

internal import CLibrary
internal import Control
internal import HostSystem

/// Why a request to a volume failed.
public enum VolumeControlError: Error, Sendable, Equatable {
    /// No protectfs volume is mounted there, or its daemon has ended.
    case notMounted(String)
    /// The mount belongs to another user.
    case notYours(String)
    /// The passphrase, recovery code or private key opens nothing.
    case wrongSecret
    /// A secret is empty, has more than 4,096 bytes, or does not fit into locked memory (`ulimit -l`).
    case unusableSecret
    /// Programs use the mount, or something else keeps the request from being done now.
    case busy(String)
    /// The answer did not come in time.
    case timedOut
    /// The daemon or the command refused, for another reason. The text is for a person.
    case failed(String)
}

extension VolumeControlError: CustomStringConvertible {
    /// A sentence for a person, without a full stop.
    public var description: String {
        switch self {
        case .notMounted(let path): "\(path): no protectfs volume is mounted there"
        case .notYours(let path): "\(path): this mount belongs to another user"
        case .wrongSecret: "the passphrase is wrong"
        case .unusableSecret: "the passphrase is empty or too long, or does not fit into locked memory"
        case .busy(let reason): reason
        case .timedOut: "the daemon of the mount did not answer in time"
        case .failed(let reason): reason
        }
    }

    init(_ error: ControlError, _ mountPoint: String) {
        switch error {
        case .unreachable(let error) where [EACCES, EPERM].contains(error.code):
            self = .notYours(mountPoint)
        case .unreachable, .closed: self = .notMounted(mountPoint)
        case .refused(let failure):
            let text = failure.message.isEmpty ? "\(mountPoint): refused (\(failure.code))" : failure.message
            self = Self(word: failure.code, text, mountPoint)
        case .protocolViolation: self = .failed("\(mountPoint): its daemon runs another version of protectfs")
        case .timedOut: self = .timedOut
        case .system(let error): self = .failed("\(error)")
        case .unusableSecret: self = .unusableSecret
        case .unproven(.foreign): self = .notYours(mountPoint)
        case .unproven: self = .failed("\(mountPoint): its daemon does not use the volume that the mount names")
        }
    }

    /// The error for a word of the protocol.
    init(word: String, _ text: String, _ mountPoint: String) {
        switch word {
        case "authentication": self = .wrongSecret
        case "busy": self = .busy(text)
        case "notMounted": self = .notMounted(mountPoint)
        default: self = .failed(text)
        }
    }
}
