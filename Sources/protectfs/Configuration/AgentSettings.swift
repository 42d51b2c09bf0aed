// What the configuration files say to `protectfs agent`: which events lock a mount, and whether it is unlocked again.

/// Something that happens to a login and can lock a mount.
enum AgentEvent: String, CaseIterable, Hashable, Sendable {
    /// The session is locked (logind).
    case session
    /// A desktop's screen saver has begun.
    case screensaver
    /// The machine is about to sleep.
    case sleep
    /// The user's last session has ended, or the agent.
    case logout

    /// Parses words with spaces between them, or `none`. Nil for other text.
    static func set(_ text: String) -> Set<AgentEvent>? {
        if text == "none" { return [] }
        let words = text.split(whereSeparator: { $0 == " " || $0 == "\t" })
        let events = words.compactMap { AgentEvent(rawValue: String($0)) }
        return events.isEmpty || events.count != words.count ? nil : Set(events)
    }

    /// The text that `set` parses.
    static func text(_ events: Set<AgentEvent>) -> String {
        events.isEmpty ? "none" : allCases.filter { events.contains($0) }.map(\.rawValue).joined(separator: " ")
    }
}

/// How the agent unlocks a mount after the session is unlocked.
enum AgentUnlock: Equatable, Sendable, CustomStringConvertible {
    /// It does not.
    case no
    /// As `protectfs unlock` does without asking.
    case yes
    /// With the passphrase that a command prints.
    case command(String)

    /// Parses a value; nil for other text.
    init?(_ text: String) {
        let word = "command "
        switch text {
        case "no": self = .no
        case "yes": self = .yes
        default:
            guard text.hasPrefix(word) else { return nil }
            self = .command(String(text.dropFirst(word.count)))
        }
    }

    /// The text that the initialiser parses.
    var description: String {
        switch self {
        case .no: "no"
        case .yes: "yes"
        case .command(let text): "command \(text)"
        }
    }
}
