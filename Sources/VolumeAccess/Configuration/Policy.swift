// What the configuration files say: defaults, and rules that limit what may be chosen.

package import CommandSupport
import Control
package import HostSystem
package import Keybag
package import SodiumKit
package import VolumeFormat

/// One line of a configuration file.
package struct Setting: Sendable {
    /// The file that says it.
    package let file: HostPath
    /// The line's content.
    package let line: ConfigurationText.Line

    /// What is set.
    package var key: ConfigurationKey { line.key }
    /// What it is set to.
    package var value: ConfigurationValue { line.value }
    /// The mount that it is for; nil for all.
    package var mountPoint: HostPath? { line.mountPoint }
    /// Its place in words.
    package var place: String { "\(file), line \(line.number)" }
    /// Its value, after the mount that it is for.
    package var text: String { line.text }
    /// The line as a rule in words.
    var rule: String { "\(place), has the rule \(key.rawValue) = \(value)" }

    /// Whether it is a rule that forbids a value of the key that it limits.
    func forbids(_ other: ConfigurationValue) -> Bool {
        switch (key, value, other) {
        case (.onlyCipher, .cipher(let one), .cipher(let other)): one != other
        case (.leastCost, .cost(let least), .cost(let other)): !other.isAtLeast(least)
        case (.leastClass, .protectionClass(let least), .protectionClass(let other)): least.isStronger(than: other)
        // No idle time means that the volume is never locked.
        case (.mostIdle, .seconds(let most), .seconds(let other)): other == 0 || other > most
        case (.mostGrace, .seconds(let most), .seconds(let other)): other > most
        default: false
        }
    }
}

/// The settings of both files. The command line is stronger than the user's file, and that is stronger than the system's. Each
/// rule of each file holds, so a file can add rules and lift none.
package struct Policy: Sendable {
    /// All settings, the user's first.
    package let settings: [Setting]

    /// A policy of these settings, the user's first.
    package init(settings: [Setting]) { self.settings = settings }

    /// Reads both files. A default that contradicts a rule of its own file, or of the system's, is refused. A user's rule moves a
    /// default of the system's.
    package static func read() throws(CommandFailure) -> Policy {
        var settings: [Setting] = []
        for file in ConfigurationFile.all { settings += try file.settings() }
        let policy = Policy(settings: settings)
        let system = SystemPaths.systemConfiguration
        for one in settings where !one.key.isRule {
            let binding = one.file == system ? settings.filter { $0.file == system } : settings
            try Policy(settings: binding)
                .check(one.value, for: one.key, "\(one.place): \(one.key.rawValue) = \(one.value)")
        }
        return policy
    }

    /// The default in force, for all mounts or, of some keys, for one. Nil if the built-in one is.
    package func setting(_ key: ConfigurationKey, at mountPoint: HostPath? = nil) -> Setting? {
        let own = mountPoint.flatMap { point in settings.first { $0.key == key && $0.mountPoint == point } }
        return own ?? settings.first { $0.key == key && $0.mountPoint == nil }
    }

    /// The rules that limit a default.
    private func rules(limiting key: ConfigurationKey) -> [Setting] { settings.filter { $0.key.limits == key } }

    /// Refuses a value that a rule forbids.
    /// - Parameter what: the value as it was given.
    private func check(_ value: ConfigurationValue, for key: ConfigurationKey, _ what: String) throws(CommandFailure) {
        guard let rule = rules(limiting: key).first(where: { $0.forbids(value) }) else { return }
        throw .init(.usage, "\(what) is not allowed: \(rule.rule)")
    }

    /// The default of a file, else the built-in value; or the nearest one to it that the rules allow.
    private func value(_ key: ConfigurationKey, else builtIn: ConfigurationValue) -> ConfigurationValue {
        rules(limiting: key).reduce(setting(key)?.value ?? builtIn) { value, rule in
            guard rule.forbids(value) else { return value }
            guard case .cost(let least) = rule.value, case .cost(let cost) = value else { return rule.value }
            return .cost(.init(passes: max(cost.passes, least.passes), memory: max(cost.memory, least.memory)))
        }
    }

    // MARK: new volumes and passphrases

    /// The cipher of a new volume.
    package func cipher(_ chosen: CipherSuite?) throws(CommandFailure) -> CipherSuite {
        let fastest = CipherSuite.preferred
        let value = chosen.map { .cipher($0) } ?? value(.cipher, else: .cipher(fastest))
        guard case .cipher(let suite) = value else { return fastest }
        try check(value, for: .cipher, "the cipher \(suite.name)")
        return suite
    }

    /// The cost of a new passphrase's hash.
    package func cost() throws(CommandFailure) -> Argon2Parameters {
        // Measuring takes a moment, and a default needs none.
        let built = try setting(.cost) == nil ? calibratedCost() : .floor
        let chosen = value(.cost, else: .cost(built))
        guard case .cost(let cost) = chosen else { return built }
        guard cost.isAcceptable() else {
            throw .init(
                .unsupported,
                "a new passphrase takes \(chosen), as the configuration files say, and this machine has only \(PasswordHash.largestMemory() >> 20) MiB for it"
            )
        }
        return cost
    }

    /// Refuses to make a passphrase that works without the device key, if a rule forbids it.
    package func checkPortable(_ isPortable: Bool) throws(CommandFailure) {
        guard isPortable, let rule = settings.first(where: { $0.key == .noPortable }) else { return }
        throw .init(.usage, "a passphrase that works without a device key is not allowed: \(rule.rule)")
    }

    /// Refuses a keybag without a slot that a rule requires.
    /// - Parameter before: the slots of the keybag that it replaces. What is missing there already may be missing.
    package func checkSlots(
        _ slots: Set<RequiredSlot>, replacing before: Set<RequiredSlot> = Set(RequiredSlot.allCases)
    ) throws(CommandFailure) {
        for rule in settings {
            guard case .slot(let slot) = rule.value, !slots.contains(slot), before.contains(slot) else { continue }
            throw .init(.usage, "a volume without \(slot.name) is not allowed: \(rule.rule)")
        }
    }

    // MARK: mounts

    /// The words of `-o` that come before those of the command line.
    package var mountWords: String {
        let ofClass = value(.defaultClass, else: .protectionClass(.volumeDefault))
        return "default_class=\(ofClass),idle=\(value(.idle, else: .seconds(0)))"
    }

    /// Refuses options of a mount that a rule forbids.
    /// - Parameter idle: the seconds without use after which the mount locks by itself.
    /// - Returns: the weakest class that a directory's default may have.
    package func checkMount(
        defaultClass chosen: ProtectionClass, idle: UInt64?
    ) throws(CommandFailure) -> ProtectionClass {
        try checkDefaultClass(chosen, "-o default_class=\(chosen.canonicalName)")
        try check(.seconds(idle ?? 0), for: .idle, idle.map { "-o idle=\($0)" } ?? "a mount that never locks by itself")
        var weakest = ProtectionClass.none
        for rule in rules(limiting: .defaultClass) where rule.forbids(.protectionClass(weakest)) {
            if case .protectionClass(let least) = rule.value { weakest = least }
        }
        return weakest
    }

    /// Refuses a default class that a rule forbids.
    /// - Parameter what: the default as it was given.
    package func checkDefaultClass(_ chosen: ProtectionClass, _ what: String) throws(CommandFailure) {
        try check(.protectionClass(chosen), for: .defaultClass, what)
    }

    /// The usual grace of a mount's locks and the longest, in seconds.
    package var grace: (usual: Double, longest: Double) {
        func seconds(_ value: ConfigurationValue) -> Double {
            if case .seconds(let seconds) = value { Double(seconds) } else { EventHub.usualGrace }
        }
        let longest = ControlLimits.standard.longestGrace
        return (
            seconds(value(.grace, else: .seconds(UInt64(EventHub.usualGrace)))),
            rules(limiting: .grace).map { seconds($0.value) }.min() ?? longest
        )
    }
}

extension RequiredSlot {
    /// What is in a keybag.
    package static func all(in bag: Keybag) -> Set<RequiredSlot> {
        var found: Set<RequiredSlot> = []
        for slot in bag.slots {
            switch slot.kind {
            case .device: found.insert(.device)
            case .passphrase: found.formUnion(slot.isBound ? [.passphrase] : [.passphrase, .portable])
            case .recovery: found.insert(.recovery)
            // No rule can demand one, because init makes none.
            case .recipient, .tpm2, .securityKey, nil: break
            }
        }
        return found
    }

    /// The slot in a sentence.
    fileprivate var name: String {
        switch self {
        case .device: "a device key"
        case .passphrase: "a passphrase"
        case .portable: "a portable passphrase"
        case .recovery: "a recovery code"
        }
    }
}
