// The messages of the control socket, as Swift values and as JSON.

package import HostSystem
package import Keybag
package import VolumeFormat

/// The refusal of a request: a stable code, and details for programs.
package struct ControlFailure: Error, Sendable, Equatable {
    /// A stable word in camelCase, such as `wrongPassphrase`.
    package let code: String
    /// One line for a log. The command line makes the sentence for a person.
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

/// The request `lock`.
package struct LockRequest: Sendable, Equatable {
    /// How long to wait for programs that asked for it, in seconds. Nil means the usual time.
    package var grace: Double?
    /// Why the volume is locked.
    package var reason: Reason

    /// Why a program asks for a lock.
    package enum Reason: String, Sendable {
        /// A person, or a program for a reason of its own.
        case command
        /// The machine is about to sleep.
        case sleep
        /// `protectfs agent`: something has happened to the session.
        case agent
    }

    /// Makes a request.
    package init(grace: Double? = nil, reason: Reason = .command) {
        self.grace = grace
        self.reason = reason
    }

    init(_ request: JSONValue?) {
        let reason = request?["reason"]?.text.flatMap { Reason(rawValue: $0) }
        self.init(grace: request?["grace"]?.number, reason: reason ?? .command)
    }
}

/// The answer to `status`.
package struct StatusReport: Sendable, Equatable {
    /// The absolute path of the volume's directory, as mounted.
    package var volume = HostPath("")
    /// The absolute path of the mount point.
    package var mountPoint = HostPath("")
    /// The volume's UUID.
    package var volumeID = ""
    /// What the keys in memory allow now.
    package var state = VolumeState.beforeFirstUnlock
    /// Number of files whose plaintext the kernel still holds; 0 except in the state `sweeping`.
    package var sweepingFiles = 0
    /// The state of class 7, which a lock closes later.
    package var inactiveState = VolumeState.beforeFirstUnlock
    /// Seconds after a lock until class 7 is closed.
    package var inactiveLimit: Int64 = 0
    /// Seconds until class 7 is closed; nil unless the volume is locked and the class is open.
    package var inactiveIn: Int64?
    /// When the volume entered this state, in seconds since 1970.
    package var since: Int64 = 0
    /// Open handles by class.
    package var openHandles: [ProtectionClass: Int] = [:]
    /// The class of new files in directories without a default.
    package var defaultClass = ProtectionClass.volumeDefault
    /// Whether the mount is read-only.
    package var isReadOnly = false
    /// Seconds without use after which the volume locks; nil means never.
    package var idleLimit: Int64?
    /// Seconds since the last use; nil if they are not counted.
    package var idleFor: Int64?
    /// Wrong passphrases in a row.
    package var unlockFailures = 0
    /// Seconds until the daemon tries another passphrase.
    package var retryAfter = 0.0
    /// The daemon's process ID.
    package var processID: Int32 = 0
    /// How requests reach the daemon: `dev_fuse` or `io_uring`.
    package var transport = "dev_fuse"
    /// Number of problems that have been reported since mounting.
    package var damage = 0
    /// Number of files that were opened since mounting, are older than this machine has seen them, and were not accepted.
    package var older = 0

    /// A report with default values.
    package init() {}

    /// The report in the form of the socket and of `status --json`.
    package var json: JSONValue {
        [
            "volume": .path(volume), "mountPoint": .path(mountPoint), "uuid": .string(volumeID),
            "state": .string("\(state.attributeValue)"), "sweepingFiles": .integer(Int64(sweepingFiles)),
            "inactiveState": .string("\(inactiveState.attributeValue)"), "inactiveLimit": .integer(inactiveLimit),
            "inactiveIn": inactiveIn.map { .integer($0) } ?? .null, "since": .integer(since),
            "openHandles": .object(
                ProtectionClass.allCases.map { JSONMember($0.canonicalName, .integer(Int64(openHandles[$0] ?? 0))) }),
            "defaultClass": .string(defaultClass.canonicalName), "readOnly": .bool(isReadOnly),
            "idleLimit": idleLimit.map { .integer($0) } ?? .null, "idleFor": idleFor.map { .integer($0) } ?? .null,
            "unlockFailures": .integer(Int64(unlockFailures)), "retryAfter": .number(retryAfter),
            "pid": .integer(Int64(processID)), "damage": .integer(Int64(damage)),
            "older": .integer(Int64(older)), "transport": .string(transport),
        ]
    }

    /// Reads a report; nil if the JSON is not one.
    package init?(_ json: JSONValue) {
        guard let volume = json.path("volume"), let mountPoint = json.path("mountPoint"),
            let uuid = json["uuid"]?.text, let state = VolumeState(json["state"]), let since = json["since"]?.integer,
            let defaultClass = json["defaultClass"]?.text.flatMap({ ProtectionClass(name: $0) })
        else { return nil }
        self.volume = volume
        self.mountPoint = mountPoint
        volumeID = uuid
        self.state = state
        sweepingFiles = Int(clamping: json["sweepingFiles"]?.integer ?? 0)
        inactiveState = VolumeState(json["inactiveState"]) ?? state
        inactiveLimit = json["inactiveLimit"]?.integer ?? 0
        inactiveIn = json["inactiveIn"]?.integer
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
        retryAfter = json["retryAfter"]?.seconds ?? 0
        processID = Int32(clamping: json["pid"]?.integer ?? 0)
        damage = Int(clamping: json["damage"]?.integer ?? 0)
        older = Int(clamping: json["older"]?.integer ?? 0)
        transport = json["transport"]?.text ?? transport
    }
}

extension LockReport {
    /// The report in the form of the socket.
    package var json: JSONValue {
        [
            "cutOff": .integer(Int64(cutOff)), "processes": .array(processes.map { .integer(Int64($0)) }),
            "milliseconds": .integer(milliseconds), "state": .string("\(state.attributeValue)"),
            "files": .integer(Int64(files)), "wasLocked": .bool(wasLocked),
            "number": number.map { .integer($0) } ?? .null,
        ]
    }

    /// Reads a report; nil if the JSON is not one.
    package init?(_ json: JSONValue) {
        guard let cutOff = json["cutOff"]?.integer else { return nil }
        self.init()
        self.cutOff = Int(clamping: cutOff)
        processes = json["processes"]?.elements?.compactMap { $0.integer.map { Int32(clamping: $0) } } ?? []
        milliseconds = json["milliseconds"]?.integer ?? 0
        state = VolumeState(json["state"]) ?? .locked
        files = Int(clamping: json["files"]?.integer ?? 0)
        wasLocked = json["wasLocked"]?.bool ?? false
        number = json["number"]?.integer
    }
}

/// An event of the volume, for subscribers and `watch`.
package enum ControlEvent: Sendable, Equatable {
    /// A lock begins when all subscribers with `wait` have answered `done` with this number, or `grace` seconds are
    /// over.
    case willLock(id: Int64, grace: Double)
    /// The volume is locked.
    case locked
    /// The keys are wiped, but the kernel still holds plaintext of this many files. `locked` follows when it holds
    /// none.
    case sweeping(files: Int)
    /// The time of class 7 after a lock has run out: its keys are wiped. The kernel still holds plaintext of this many of its
    /// files.
    case inactive(files: Int)
    /// The volume is about to be unlocked.
    case willUnlock
    /// The volume is unlocked again.
    case unlocked
    /// The volume is unlocked for the first time since mounting.
    case firstUnlock

    /// The event in the form of the socket and of `watch --json`.
    package var json: JSONValue {
        switch self {
        case .willLock(let id, let grace): ["event": "willLock", "id": .integer(id), "grace": .number(grace)]
        case .locked: ["event": "locked"]
        case .sweeping(let files): ["event": "sweeping", "files": .integer(Int64(files))]
        case .inactive(let files): ["event": "inactive", "files": .integer(Int64(files))]
        case .willUnlock: ["event": "willUnlock"]
        case .unlocked: ["event": "unlocked"]
        case .firstUnlock: ["event": "firstUnlock"]
        }
    }

    /// Reads an event; nil if it is unknown.
    package init?(_ json: JSONValue) {
        switch json["event"]?.text {
        case "willLock":
            guard let id = json["id"]?.integer, let grace = json["grace"]?.seconds else { return nil }
            self = .willLock(id: id, grace: grace)
        case "locked": self = .locked
        case "sweeping": self = .sweeping(files: Int(clamping: json["files"]?.integer ?? 0))
        case "inactive": self = .inactive(files: Int(clamping: json["files"]?.integer ?? 0))
        case "willUnlock": self = .willUnlock
        case "unlocked": self = .unlocked
        case "firstUnlock": self = .firstUnlock
        default: return nil
        }
    }
}

/// A request to change a file's class.
package struct ClassRequest: Sendable, Equatable {
    /// How to change the class.
    package enum Mode: String, Sendable {
        /// Encrypt the file again with a new file key.
        case reencrypt
        /// Wrap the file key again, as setxattr does. Only page 0 of the file changes.
        case wrapOnly
    }

    /// The file's path from the mount's root, in the file system's bytes, without a leading slash.
    package var path: [UInt8]
    /// The new class.
    package var protectionClass: ProtectionClass
    /// How to change it.
    package var mode: Mode

    /// Makes a request.
    package init(path: [UInt8], class protectionClass: ProtectionClass, mode: Mode) {
        self.path = path
        self.protectionClass = protectionClass
        self.mode = mode
    }
}

/// The progress of a re-encryption, in bytes.
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

extension UnlockCondition {
    /// Its members of the request `unlock`.
    var members: [JSONMember] {
        switch self {
        case .always: []
        case .ifLock(let number): [JSONMember("ifLock", .integer(number))]
        case .ifUnlocked: [JSONMember("onlyIfUnlocked", true)]
        }
    }

    /// Reads the condition of a request.
    init(_ request: JSONValue) {
        if request["onlyIfUnlocked"]?.bool == true {
            self = .ifUnlocked
        } else {
            self = request["ifLock"]?.integer.map { .ifLock($0) } ?? .always
        }
    }
}
