// The record for administrators: what happens to volumes, as entries of the journal. docs/use/administration.md has the fields.

package import CommandSupport
import HostSystem
package import KeyFiles
package import Keybag
package import VolumeFormat

/// The record. An entry has no name of a file, no path, no content and no secret: the type of a detail has no room for them.
package enum Record {
    /// What happened.
    package enum Event: String, CaseIterable, Sendable {
        case mounted
        case unmounted
        case unlocked
        case unlockFailed = "unlock-failed"
        case locked
        case keysChanged = "keys-changed"
        case classLowered = "class-lowered"
        case tampering

        /// The MESSAGE_ID. It is part of the interface and never changes.
        var messageID: String {
            switch self {
            case .mounted: "f75f2aca91d747f49d18ed3fceeb99b6"
            case .unmounted: "a60302e8d6b5447b8c1e0a2df1b48595"
            case .unlocked: "a2b1e69b33024f10b095710fd34bcdb9"
            case .unlockFailed: "48da36ca9987476f9bb9305f9a3171b5"
            case .locked: "3f965a656f234da2b4b167f875b19e7e"
            case .keysChanged: "5948c1b2f3794898b99828965ddf54b2"
            case .classLowered: "d8ae819b448f4a31925df766665ad082"
            case .tampering: "8064880e2fe14adcaf0bc74dbaeb6c71"
            }
        }

        fileprivate func message(_ details: [Detail]) -> String {
            for case .reason(let reason) in details where self == .keysChanged {
                if reason == .initialise { return "made" }
                if reason == .erase { return "its keys were destroyed" }
            }
            return switch self {
            case .mounted: "mounted"
            case .unmounted: "unmounted"
            case .unlocked: "unlocked"
            case .unlockFailed: "an attempt to unlock failed"
            case .locked: "locked"
            case .keysChanged: "the keys were changed"
            case .classLowered: "a weaker class was set"
            case .tampering: "stored data was changed or damaged"
            }
        }

        fileprivate var level: SystemLog.Level {
            switch self {
            case .mounted, .unmounted, .unlocked, .locked: .info
            case .keysChanged, .classLowered: .notice
            case .unlockFailed, .tampering: .warning
            }
        }

        /// Whether someone who changes the store or classes, or tries to unlock, could flood the journal with it.
        fileprivate var isLimited: Bool { [.classLowered, .tampering, .unlockFailed].contains(self) }
    }

    /// Why a volume was locked, and which command changed its keys.
    package enum Reason: String, Sendable {
        case command
        case sleep
        case agent
        case idle
        case signal
        case detached
        case unmount
        case initialise = "init"
        case slotAdd = "slot-add"
        case slotRemove = "slot-remove"
        case passphraseChange = "passphrase-change"
        case recoveryUse = "recovery-use"
        case keysRotate = "keys-rotate"
        case keybagImport = "keybag-import"
        case erase
    }

    /// What a keybag that this machine does not accept has instead.
    package enum KeybagDamage: String, Sendable {
        case older = "keybag-older"
        case otherPublicKey = "keybag-public-key"
        case otherContents = "keybag-contents"
        case unauthentic = "keybag-mac"
    }

    /// One fact about an event.
    package enum Detail: Sendable {
        case user(UInt32)
        case result(ExitCode)
        case reason(Reason)
        case credential(SlotLayout.Kind)
        case slot(Keybag.SlotSummary)
        case removedSlot(Keybag.SlotSummary)
        case inode(UInt64)
        case classes(from: ProtectionClass, to: ProtectionClass)
        case damage(Damage)
        case keybagDamage(KeybagDamage)

        fileprivate var fields: [(name: String, value: String)] {
            switch self {
            case .user(let user): [("PROTECTFS_UID", "\(user)")]
            case .result(let code): [("PROTECTFS_RESULT", code.recordWord)]
            case .reason(let reason): [("PROTECTFS_REASON", reason.rawValue)]
            case .credential(let kind): [("PROTECTFS_CREDENTIAL", Self.word(kind))]
            case .slot(let slot): [("PROTECTFS_SLOT", Self.words(slot))]
            case .removedSlot(let slot): [("PROTECTFS_SLOT_REMOVED", Self.words(slot))]
            case .inode(let inode): [("PROTECTFS_INODE", "\(inode)")]
            case .classes(let old, let new):
                [("PROTECTFS_CLASS_BEFORE", old.canonicalName), ("PROTECTFS_CLASS", new.canonicalName)]
            case .damage(let damage): [("PROTECTFS_DAMAGE", damage.rawValue)]
            case .keybagDamage(let damage): [("PROTECTFS_DAMAGE", damage.rawValue)]
            }
        }

        private static func words(_ slot: Keybag.SlotSummary) -> String { "\(slot.id) \(word(slot.kind))" }

        private static func word(_ kind: SlotLayout.Kind?) -> String {
            switch kind {
            case .device: RequiredSlot.device.rawValue
            case .passphrase: RequiredSlot.passphrase.rawValue
            case .recovery: RequiredSlot.recovery.rawValue
            case .recipient: "recipient"
            case .tpm2: "tpm2"
            case .securityKey: "security-key"
            case nil: "newer"
            }
        }
    }

    private struct State: Sendable {
        var windows: [Event: RecordWindow] = [:]
        /// Entries that the journal has not taken since the last one that it took.
        var lost = 0
    }
    private static let state = Lock(State())

    /// Writes an entry. It never waits: an entry that the journal does not take at once is lost, and the next one says so. The
    /// caller may hold any lock.
    package static func write(_ event: Event, _ volume: VolumeID, _ details: [Detail] = []) {
        let (isAllowed, suppressed, lost) = state.withLock { state -> (Bool, Int, Int) in
            var (isAllowed, suppressed) = (true, 0)
            if event.isLimited {
                (isAllowed, suppressed) = state.windows[event, default: .init()].take(at: WallClock.bootNanoseconds)
            }
            guard isAllowed else { return (false, 0, 0) }
            // Each number is told once, by whichever thread has taken it.
            defer { state.lost = 0 }
            return (true, suppressed, state.lost)
        }
        guard isAllowed else { return }
        var fields: [(name: String, value: String)] = [
            ("MESSAGE", "volume \(volume): \(event.message(details))"), ("MESSAGE_ID", event.messageID),
            ("PRIORITY", "\(event.level.rawValue)"), ("SYSLOG_IDENTIFIER", "protectfs"),
            ("PROTECTFS_EVENT", event.rawValue), ("PROTECTFS_VOLUME", "\(volume)"),
        ]
        fields += details.flatMap(\.fields)
        if suppressed > 0 { fields.append(("PROTECTFS_SUPPRESSED", "\(suppressed)")) }
        if lost > 0 { fields.append(("PROTECTFS_LOST", "\(lost)")) }
        guard !Journal.send(fields) else { return }
        state.withLock { state in
            state.lost += lost + 1
            if suppressed > 0 { state.windows[event]?.giveBack(suppressed) }
        }
    }

    /// The slots that a change of the keybag has made and removed.
    package static func slots(from old: Keybag?, to new: Keybag) -> [Detail] {
        let (before, after) = (old?.slots ?? [], new.slots)
        return after.filter { !before.map(\.id).contains($0.id) }.map { .slot($0) }
            + before.filter { !after.map(\.id).contains($0.id) }.map { .removedSlot($0) }
    }
}

/// Lets a number of entries through in each stretch of time, and counts the others.
struct RecordWindow: Sendable {
    static let entries = 20
    static let nanoseconds: UInt64 = 10_000_000_000

    private var start: UInt64 = 0
    private var count = 0
    private var suppressed = 0

    /// Whether an entry is let through at this time, and how many were not since the last one.
    mutating func take(at now: UInt64) -> (isAllowed: Bool, suppressed: Int) {
        if count == 0 || HostSystem.nanoseconds(from: start, to: now) > Self.nanoseconds { (start, count) = (now, 0) }
        guard count < Self.entries else {
            suppressed += 1
            return (false, 0)
        }
        count += 1
        defer { suppressed = 0 }
        return (true, suppressed)
    }

    /// The number could not be told.
    mutating func giveBack(_ number: Int) { suppressed += number }
}

extension ExitCode {
    /// The result in the record: the word of the control protocol, or one of two that are no errors.
    fileprivate var recordWord: String { self == .success ? "success" : self == .sweeping ? "sweeping" : word }
}

extension Record.Detail {
    /// Who runs this process.
    package static var ownUser: Record.Detail { .user(SystemPaths.user) }

    /// A user, if the kernel has said who it is.
    package static func by(_ user: UInt32?) -> [Record.Detail] { user.map { [.user($0)] } ?? [] }
}

extension Credential {
    /// The kind of slot that it opens.
    package var kind: SlotLayout.Kind {
        switch self {
        case .passphrase: .passphrase
        case .recoveryCode: .recovery
        case .recipientKey: .recipient
        case .tpm2: .tpm2
        case .securityKey: .securityKey
        }
    }
}

extension Keybag {
    /// The slot that a credential has opened, for the record.
    package func credential(ofSlot number: UInt32?) -> [Record.Detail] {
        guard let slot = slots.first(where: { $0.id == number }) else { return [] }
        return [.slot(slot)] + (slot.kind.map { [.credential($0)] } ?? [])
    }
}
