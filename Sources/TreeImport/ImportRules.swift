// Which class an imported file gets: the options --class of `import`.

import BackingStore
package import CommandSupport
package import HostSystem
import VolumeAccess
import VolumeFormat

/// The rules in their order. The first that matches counts.
package struct ImportRules {
    private struct Rule {
        let protectionClass: ProtectionClass
        let pattern: HostPath
        /// Whether the pattern is compared with the path and not with the name.
        let isPath: Bool
    }

    private let rules: [Rule]

    /// Reads `CLASS:PATTERN` of each value.
    package init(_ values: [HostPath]) throws(CommandFailure) {
        var rules: [Rule] = []
        for value in values {
            guard let colon = value.bytes.firstIndex(of: UInt8(ascii: ":")) else {
                throw .init(.usage, "--class \(value): give a class and a pattern, such as complete:'*.pdf'")
            }
            let word = HostPath(bytes: Array(value.bytes[..<colon]))
            guard let protectionClass = ProtectionClass(name: String(decoding: word.bytes, as: UTF8.self)) else {
                throw ErrorMessages.unknownClass(word)
            }
            var pattern = Array(value.bytes[(colon + 1)...])
            let isPath = pattern.contains(UInt8(ascii: "/"))
            while pattern.last == UInt8(ascii: "/") { pattern.removeLast() }
            while pattern.starts(with: "./".utf8) { pattern.removeFirst(2) }
            guard !pattern.isEmpty, pattern.first != UInt8(ascii: "/") else {
                throw .init(.usage, "--class \(value): the pattern must be a name, or a path in the source")
            }
            rules.append(Rule(protectionClass: protectionClass, pattern: HostPath(bytes: pattern), isPath: isPath))
        }
        self.rules = rules
    }

    /// The class of the file at this path in the source; nil if no rule matches.
    func protectionClass(of path: [EntryName]) -> ProtectionClass? {
        if rules.isEmpty { return nil }
        let whole = HostPath(components: path.map { Array($0.bytes) })
        return rules.first { rule in
            rule.isPath ? whole.lies(in: rule.pattern) : whole.lastComponent.matches(rule.pattern)
        }?.protectionClass
    }
}
