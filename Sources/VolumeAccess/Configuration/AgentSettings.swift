// What the configuration files say to `protectfs agent`: which events lock a mount, and whether it is unlocked again.

import CommandSupport
import HostSystem

/// Something that happens to a login and can lock a mount.
package enum AgentEvent: String, CaseIterable, Hashable, Sendable {
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
package enum AgentUnlock: Equatable, Sendable, CustomStringConvertible {
    /// It does not.
    case no
    /// With the TPM of the machine, or with one that is named as the option `--tpm2-device` names it.
    case tpm2(device: String?)
    /// With the passphrase from a source.
    case source(Source, String)

    /// Where the agent has the passphrase or the key from.
    package enum Source: String, CaseIterable, Sendable {
        /// A command prints the passphrase.
        case command
        /// A credential of the agent's service is the passphrase.
        case credential
        /// A file has the private key of a recipient.
        case recipientKey = "recipient-key"
    }

    /// Parses a value; nil for other text.
    init?(_ text: String) {
        switch text {
        case "no": self = .no
        case "tpm2": self = .tpm2(device: nil)
        default:
            guard let space = text.firstIndex(of: " ") else { return nil }
            let value = text[text.index(after: space)...]
            if text[..<space] == "tpm2" {
                guard TPM2Device.isName(String(value)) else { return nil }
                self = .tpm2(device: String(value))
                return
            }
            guard let source = Source(rawValue: String(text[..<space])) else { return nil }
            if source == .recipientKey, !value.hasPrefix("/"), !value.hasPrefix("~/") { return nil }
            self = .source(source, String(value))
        }
    }

    /// The text that the initialiser parses.
    package var description: String {
        switch self {
        case .no: "no"
        case .tpm2(let device): device.map { "tpm2 \($0)" } ?? "tpm2"
        case .source(let source, let text): "\(source.rawValue) \(text)"
        }
    }
}
