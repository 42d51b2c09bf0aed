// The text of a configuration file: its keys and their values. docs/use/administration.md is for its readers.

import CommandSupport
import Control
import HostSystem
package import SodiumKit
package import VolumeFormat

/// A key of a configuration file. A default is named by its command and option; other keys are rules.
package enum ConfigurationKey: String, CaseIterable, Sendable {
    case cipher = "init.cipher"
    case cost = "passphrase.cost"
    case defaultClass = "mount.default_class"
    case idle = "mount.idle"
    case grace = "lock.grace"
    case agentLock = "agent.lock"
    case agentIdle = "agent.idle"
    case agentUnlock = "agent.unlock"
    case onlyCipher = "only.cipher"
    case leastCost = "least.cost"
    case leastClass = "least.default_class"
    case mostIdle = "most.idle"
    case mostGrace = "most.grace"
    case requiredSlot = "require.slot"
    case noPortable = "forbid.portable"

    /// Whether it limits what others may choose.
    package var isRule: Bool {
        switch self {
        case .cipher, .cost, .defaultClass, .idle, .grace, .agentLock, .agentIdle, .agentUnlock: false
        case .onlyCipher, .leastCost, .leastClass, .mostIdle, .mostGrace, .requiredSlot, .noPortable: true
        }
    }

    /// Whether a value may be for one mount: `MOUNTPOINT: VALUE`.
    var isPerMount: Bool { [.agentLock, .agentIdle, .agentUnlock].contains(self) }

    /// The default whose values a rule limits. Nil for a default, and for a rule about something else.
    var limits: ConfigurationKey? {
        switch self {
        case .onlyCipher: .cipher
        case .leastCost: .cost
        case .leastClass: .defaultClass
        case .mostIdle: .idle
        case .mostGrace: .grace
        default: nil
        }
    }

    /// Its value in a text. Nil if the text has none.
    fileprivate func value(_ text: String) -> ConfigurationValue? {
        switch self {
        case .cipher, .onlyCipher: CipherSuite(name: text).map { .cipher($0) }
        case .cost, .leastCost: Argon2Parameters(configured: text).map { .cost($0) }
        case .defaultClass, .leastClass: ProtectionClass(name: text).map { .protectionClass($0) }
        case .idle, .agentIdle: DurationText.seconds(text).map { .seconds($0) }
        case .agentLock: AgentEvent.set(text).map { .events($0) }
        case .agentUnlock: AgentUnlock(text).map { .unlocking($0) }
        case .mostIdle: DurationText.seconds(text).flatMap { $0 == 0 ? nil : .seconds($0) }
        case .grace, .mostGrace: DurationText.seconds(text).flatMap { $0 > Self.longestGrace ? nil : .seconds($0) }
        case .requiredSlot: RequiredSlot(rawValue: text).map { .slot($0) }
        case .noPortable: text == "yes" ? .yes : nil
        }
    }

    private static let longestGrace = UInt64(ControlLimits.standard.longestGrace)

    /// The values that it takes, for a message.
    private var expected: String {
        switch self {
        case .cipher, .onlyCipher: CipherSuite.allCases.map(\.name).joined(last: "or")
        case .cost, .leastCost:
            "such as \"3 passes 256 MiB\", with 3 to 16 passes and 64 to 4096 MiB"
        case .defaultClass, .leastClass: ProtectionClass.allCases.map(\.canonicalName).joined(last: "or")
        case .agentLock:
            "none, or one or more of \(AgentEvent.allCases.map(\.rawValue).joined(last: "and")) with spaces between them"
        case .agentUnlock:
            "no, tpm2, command and a command that prints the passphrase, credential and its name, or recipient-key and an absolute path"
        case .idle, .agentIdle: "a duration such as 300, 90s, 10m or 2h; 0 is never"
        case .mostIdle: "a duration such as 300, 90s, 10m or 2h"
        case .grace, .mostGrace: "a duration of at most \(Self.longestGrace) s"
        case .requiredSlot: RequiredSlot.allCases.map(\.rawValue).joined(last: "or")
        case .noPortable: "yes"
        }
    }

    /// The message for a value that it does not take.
    fileprivate func refusal(_ text: String) -> String {
        "\(rawValue) = \(HostPath(text)): expected \(expected)"
    }
}

/// A slot of the keybag that a rule may require.
package enum RequiredSlot: String, CaseIterable, Sendable {
    case device
    case passphrase
    case portable
    case recovery
}

/// The value of a key.
package enum ConfigurationValue: Equatable, Sendable, CustomStringConvertible {
    case cipher(CipherSuite)
    case cost(Argon2Parameters)
    case protectionClass(ProtectionClass)
    case seconds(UInt64)
    case slot(RequiredSlot)
    case events(Set<AgentEvent>)
    case unlocking(AgentUnlock)
    case yes

    /// The value as a configuration file may have it.
    package var description: String {
        switch self {
        case .cipher(let suite): suite.name
        case .cost(let cost): cost.configured
        case .protectionClass(let one): one.canonicalName
        case .seconds(let seconds): "\(seconds)s"
        case .slot(let slot): slot.rawValue
        case .events(let events): AgentEvent.text(events)
        case .unlocking(let way): way.description
        case .yes: "yes"
        }
    }
}

extension Argon2Parameters {
    /// Parses `3 passes 256 MiB`. Nil for other text, and for costs that a new slot cannot have.
    fileprivate init?(configured text: String) {
        let words = text.split(whereSeparator: { $0 == " " || $0 == "\t" })
        guard words.count == 4, words[1] == "passes", words[3] == "MiB", let passes = UInt32(words[0]),
            let mebibytes = UInt64(words[2]), mebibytes <= 4096
        else { return nil }
        self.init(passes: passes, memory: mebibytes << 20)
        guard isAtLeast(.floor), isAcceptable(largestMemory: 4 << 30) else { return nil }
    }

    /// The text that the initialiser takes.
    fileprivate var configured: String { "\(passes) passes \(memory >> 20) MiB" }

    /// Whether neither its passes nor its memory are less than those of `other`.
    func isAtLeast(_ other: Argon2Parameters) -> Bool { passes >= other.passes && memory >= other.memory }
}

/// A line that cannot be used.
struct ConfigurationError: Error, Equatable {
    /// Its number, from 1.
    let line: Int
    /// What is wrong with it.
    let message: String
}

/// The settings of one file.
package enum ConfigurationText {
    /// The largest file, in bytes.
    static let longest = 65536

    /// A line with a setting.
    package struct Line: Equatable, Sendable {
        /// The line's number, from 1.
        package let number: Int
        let key: ConfigurationKey
        let value: ConfigurationValue
        /// The mount that it is for; nil for all.
        var mountPoint: HostPath?

        /// What it says, as a configuration file may have it.
        var text: String { mountPoint.map { "\($0): \(value)" } ?? "\(value)" }
    }

    /// Parses lines of the form `KEY = VALUE`. What follows a `#` is a comment.
    static func parse(_ bytes: [UInt8]) throws(ConfigurationError) -> [Line] {
        guard bytes.count <= longest else {
            throw .init(line: 1, message: "the file is longer than \(longest) bytes")
        }
        var lines: [Line] = []
        let texts = bytes.split(separator: UInt8(ascii: "\n"), omittingEmptySubsequences: false)
        for (index, text) in texts.enumerated() {
            let number = index + 1
            guard let line = try parse(text, number) else { continue }
            let first = lines.first { $0.key == line.key && $0.mountPoint == line.mountPoint }
            if line.key != .requiredSlot, let first {
                throw .init(line: number, message: "\(line.key.rawValue) is already in line \(first.number)")
            }
            lines.append(line)
        }
        return lines
    }

    private static func parse(_ bytes: ArraySlice<UInt8>, _ number: Int) throws(ConfigurationError) -> Line? {
        let used = trimmed(bytes.prefix { $0 != UInt8(ascii: "#") })
        if used.isEmpty { return nil }
        guard let equals = used.firstIndex(of: UInt8(ascii: "=")) else {
            throw .init(line: number, message: "expected KEY = VALUE")
        }
        guard let name = String(validating: trimmed(used[..<equals]), as: UTF8.self),
            let text = String(validating: trimmed(used[(equals + 1)...]), as: UTF8.self)
        else { throw .init(line: number, message: "not UTF-8 text") }
        guard let key = ConfigurationKey(rawValue: name) else {
            let suggestion = NearMiss.suggestion(for: name, among: ConfigurationKey.allCases.map(\.rawValue))
            throw .init(line: number, message: "unknown key \"\(HostPath(name))\"\(suggestion)")
        }
        let (mountPoint, rest) = key.isPerMount ? divided(text) : (nil, text)
        // A path or a command would end at a NUL, and no message shows a path's other ones as they are.
        let isControl = { (byte: UInt8) in byte < 0x20 || byte == 0x7F }
        if key.isPerMount, text.utf8.contains(0) || mountPoint?.bytes.contains(where: isControl) == true {
            throw .init(line: number, message: "\(name) has a control character")
        }
        guard let value = key.value(rest) else { throw .init(line: number, message: key.refusal(rest)) }
        return Line(number: number, key: key, value: value, mountPoint: mountPoint)
    }

    /// Divides `MOUNTPOINT: VALUE`. A mount point begins with `/` or `~/`, and ends at the first colon before a space.
    private static func divided(_ text: String) -> (HostPath?, String) {
        guard text.hasPrefix("/") || text.hasPrefix("~/") else { return (nil, text) }
        let bytes = Array(text.utf8)
        let colon = bytes.indices.dropLast().first {
            bytes[$0] == UInt8(ascii: ":") && bytes[$0 + 1] == UInt8(ascii: " ")
        }
        guard let colon else { return (nil, text) }
        let path = bytes[..<colon]
        let isInHome = path.first == UInt8(ascii: "~")
        let whole = isInHome ? SystemPaths.home.bytes + path.dropFirst() : Array(path)
        let value = trimmed(bytes[(colon + 1)...])
        return (HostPath(bytes: whole).simplified, String(decoding: value, as: UTF8.self))
    }

    /// Without white space at both ends.
    private static func trimmed(_ bytes: ArraySlice<UInt8>) -> ArraySlice<UInt8> {
        let isSpace = { (byte: UInt8) in byte == 32 || byte == 9 || byte == 13 }
        let start = bytes.drop(while: isSpace)
        guard let last = start.lastIndex(where: { !isSpace($0) }) else { return [] }
        return start[...last]
    }
}
