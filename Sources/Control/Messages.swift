// What is said over the control socket, as Swift values and as JSON.

package import Keybag
package import VolumeFormat

/// A request that was refused: a stable word, and what a program may want to know beside it.
package struct ControlFailure: Error, Sendable, Equatable {
    /// A stable word in camelCase, such as `wrongPassphrase`.
    package let code: String
    /// One line for a log; the sentence for a person is made by the command line.
    package let message: String
    /// More fields, or null.
    package let details: JSONValue

    /// Makes a failure.
    package init(code: String, message: String = "", details: JSONValue = .null) {
        self.code = code
        self.message = message
        self.details = details
    }
}

/// What `status` answers.
package struct StatusReport: Sendable, Equatable {
    /// The volume's directory as typed at mounting.
    package var volume = ""
    /// The mount point as typed at mounting.
    package var mountPoint = ""
    /// The volume's UUID.
    package var volumeID = ""
    /// The state.
    package var state = VolumeState.beforeFirstUnlock
    /// Files of which the kernel still holds plaintext; 0 but in the state `sweeping`.
    package var sweepingFiles = 0
    /// Since when, in seconds since 1970.
    package var since: Int64 = 0
    /// Open handles by class.
    package var openHandles: [ProtectionClass: Int] = [:]
    /// The class of new files in directories without a default.
    package var defaultClass = ProtectionClass.volumeDefault
    /// Whether the mount is read-only.
    package var isReadOnly = false
    /// Seconds without use after which the volume locks; nil: never.
    package var idleLimit: Int64?
    /// Seconds since the last use; nil when not counted.
    package var idleFor: Int64?
    /// Wrong passphrases in a row.
    package var unlockFailures = 0
    /// Seconds until the next passphrase is tried.
    package var retryAfter = 0.0
    /// The daemon's process.
    package var processID: Int32 = 0
    /// Departures from the ordinary that were reported since mounting.
    package var damage = 0

    /// An empty report, to be filled in.
    package init() {}

    /// The report as the socket and `status --json` have it.
    package var json: JSONValue {
        [
            "volume": .string(volume), "mountPoint": .string(mountPoint), "uuid": .string(volumeID),
            "state": .string("\(state.attributeValue)"), "sweepingFiles": .integer(Int64(sweepingFiles)),
            "since": .integer(since),
            "openHandles": .object(
                ProtectionClass.allCases.map { JSONMember($0.canonicalName, .integer(Int64(openHandles[$0] ?? 0))) }),
            "defaultClass": .string(defaultClass.canonicalName), "readOnly": .bool(isReadOnly),
            "idleLimit": idleLimit.map { .integer($0) } ?? .null, "idleFor": idleFor.map { .integer($0) } ?? .null,
            "unlockFailures": .integer(Int64(unlockFailures)), "retryAfter": .number(retryAfter),
            "pid": .integer(Int64(processID)), "damage": .integer(Int64(damage)),
        ]
    }

    /// Reads a report; nil when it is none.
    package init?(_ json: JSONValue) {
        guard let volume = json["volume"]?.text, let mountPoint = json["mountPoint"]?.text,
            let uuid = json["uuid"]?.text, let state = VolumeState(json["state"]), let since = json["since"]?.integer,
            let defaultClass = json["defaultClass"]?.text.flatMap({ ProtectionClass(name: $0) })
        else { return nil }
        self.volume = volume
        self.mountPoint = mountPoint
        volumeID = uuid
        self.state = state
        sweepingFiles = Int(clamping: json["sweepingFiles"]?.integer ?? 0)
        self.since = since
        for protectionClass in ProtectionClass.allCases {
            let count = json["openHandles"]?[protectionClass.canonicalName]?.integer ?? 0
            if count > 0 { openHandles[protectionClass] = Int(clamping: count) }
        }
        self.defaultClass = defaultClass
        isReadOnly = json["readOnly"]?.bool ?? false
        idleLimit = json["idleLimit"]?.integer
        idleFor = json["idleFor"]?.integer
        unlockFailures = Int(clamping: json["unlockFailures"]?.integer ?? 0)
        retryAfter = json["retryAfter"]?.number ?? 0
        processID = Int32(clamping: json["pid"]?.integer ?? 0)
        damage = Int(clamping: json["damage"]?.integer ?? 0)
    }
}

extension LockReport {
    /// The report as the socket has it.
    package var json: JSONValue {
        [
            "cutOff": .integer(Int64(cutOff)), "processes": .array(processes.map { .integer(Int64($0)) }),
            "milliseconds": .integer(milliseconds), "state": .string("\(state.attributeValue)"),
            "files": .integer(Int64(files)), "wasLocked": .bool(wasLocked),
        ]
    }

    /// Reads a report; nil when it is none.
    package init?(_ json: JSONValue) {
        guard let cutOff = json["cutOff"]?.integer else { return nil }
        self.init()
        self.cutOff = Int(clamping: cutOff)
        processes = json["processes"]?.elements?.compactMap { $0.integer.map { Int32(clamping: $0) } } ?? []
        milliseconds = json["milliseconds"]?.integer ?? 0
        state = VolumeState(json["state"]) ?? .locked
        files = Int(clamping: json["files"]?.integer ?? 0)
        wasLocked = json["wasLocked"]?.bool ?? false
    }
}

/// What happens to the volume, for subscribers and `watch`.
package enum ControlEvent: Sendable, Equatable {
    /// A lock begins when everyone who asked has answered `done` with this number, or the grace is over.
    case willLock(id: Int64, grace: Double)
    /// The volume is locked.
    case locked
    /// The keys are gone, and the kernel still holds plaintext of so many files; `locked` follows when it does not.
    case sweeping(files: Int)
    /// Keys are about to come in.
    case willUnlock
    /// The volume is unlocked again.
    case unlocked
    /// The volume is unlocked for the first time since mounting.
    case firstUnlock

    /// The event as the socket and `watch --json` have it.
    package var json: JSONValue {
        switch self {
        case .willLock(let id, let grace): ["event": "willLock", "id": .integer(id), "grace": .number(grace)]
        case .locked: ["event": "locked"]
        case .sweeping(let files): ["event": "sweeping", "files": .integer(Int64(files))]
        case .willUnlock: ["event": "willUnlock"]
        case .unlocked: ["event": "unlocked"]
        case .firstUnlock: ["event": "firstUnlock"]
        }
    }

    /// Reads an event; nil when it is none that is known.
    package init?(_ json: JSONValue) {
        switch json["event"]?.text {
        case "willLock":
            guard let id = json["id"]?.integer, let grace = json["grace"]?.number else { return nil }
            self = .willLock(id: id, grace: grace)
        case "locked": self = .locked
        case "sweeping": self = .sweeping(files: Int(clamping: json["files"]?.integer ?? 0))
        case "willUnlock": self = .willUnlock
        case "unlocked": self = .unlocked
        case "firstUnlock": self = .firstUnlock
        default: return nil
        }
    }
}

/// A change of class with re-encryption, or of the wrap only.
package struct ClassRequest: Sendable, Equatable {
    /// How the class is changed.
    package enum Mode: String, Sendable {
        /// With a new file key.
        case reencrypt
        /// Page 0 alone, as setxattr does.
        case wrapOnly
    }

    /// The file's path from the mount's root, bytes as the file system has them, without a slash in front.
    package var path: [UInt8]
    /// The class that it gets.
    package var protectionClass: ProtectionClass
    /// How.
    package var mode: Mode

    /// Makes a request.
    package init(path: [UInt8], class protectionClass: ProtectionClass, mode: Mode) {
        self.path = path
        self.protectionClass = protectionClass
        self.mode = mode
    }
}

/// How far a re-encryption has come, in bytes.
package struct ClassProgress: Sendable, Equatable {
    /// Bytes done.
    package var done: UInt64
    /// Bytes in all.
    package var total: UInt64

    /// Makes a report.
    package init(done: UInt64, total: UInt64) {
        self.done = done
        self.total = total
    }
}

extension VolumeState {
    init?(_ json: JSONValue?) {
        guard let text = json?.text, let state = Self(attributeValue: text) else {
            return nil
        }
        self = state
    }
}
