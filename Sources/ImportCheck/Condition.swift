// Evaluates conditions of `#if` that have the same value in every build on Linux.

/// Evaluates a condition.
enum Condition {
    /// The value of the condition; nil if it depends on the build.
    static func value(_ text: String) -> Bool? {
        var parser = Parser(text)
        return parser.either()
    }

    /// Modules that do not exist on Linux.
    private static let absent: Set<String> = [
        "AppKit", "AVFoundation", "CloudKit", "Combine", "CoreData", "CoreGraphics", "CoreImage", "CryptoKit", "Darwin",
        "HealthKit", "LocalAuthentication", "MessageUI", "Network", "ObjectiveC", "OSLog", "Photos", "Security",
        "SwiftData", "SwiftUI", "UIKit", "UserNotifications", "WatchKit", "WebKit", "WidgetKit", "os",
    ]
    /// Modules that every program with this package has.
    private static let present: Set<String> = [
        "Dispatch", "FileProtection", "Foundation", "FoundationEssentials", "FoundationNetworking", "Glibc", "Swift",
    ]

    private static func call(_ name: String, _ argument: String) -> Bool? {
        switch name {
        case "os": return argument == "Linux"
        case "canImport":
            if present.contains(argument) { return true }
            return absent.contains(String(argument.prefix { $0 != "." })) ? false : nil
        case "targetEnvironment": return ["simulator", "macCatalyst"].contains(argument) ? false : nil
        case "_runtime": return argument == "_Native"
        default: return nil
        }
    }

    /// A recursive descent parser. `!` has the highest precedence, then `&&`, then `||`.
    private struct Parser {
        private var rest: Substring

        init(_ text: String) { rest = Substring(text.filter { $0 != " " && $0 != "\t" && $0 != "\r" }) }

        private mutating func takes(_ text: String) -> Bool {
            guard rest.hasPrefix(text) else { return false }
            rest.removeFirst(text.count)
            return true
        }

        mutating func either() -> Bool? {
            var result = both()
            while takes("||") {
                let other = both()
                result = result == true || other == true ? true : result == false && other == false ? false : nil
            }
            return result
        }

        private mutating func both() -> Bool? {
            var result = one()
            while takes("&&") {
                let other = one()
                result = result == false || other == false ? false : result == true && other == true ? true : nil
            }
            return result
        }

        private mutating func one() -> Bool? {
            if takes("!") { return one().map { !$0 } }
            if takes("(") {
                let result = either()
                _ = takes(")")
                return result
            }
            let name = rest.prefix { $0.isLetter || $0.isNumber || $0 == "_" }
            rest.removeFirst(name.count)
            guard takes("(") else { return name == "true" ? true : name == "false" ? false : nil }
            let argument = rest.prefix { $0 != ")" }
            rest.removeFirst(argument.count)
            _ = takes(")")
            return call(String(name), String(argument))
        }
    }
}
