// Calls the documents' keychain example, and speaks a small language for the mount tests: one answer a line.

import FileProtection
import Secrets

/// An NSNumber, of a whole number or a fraction.
func number(_ text: Substring) -> NSNumber {
    Int(text).map { NSNumber(value: $0) } ?? NSNumber(value: Double(text) ?? 0)
}

/// The last persistent reference that a call gave.
nonisolated(unsafe) var reference = Data()

/// The value of "&PROTECTION,FLAGS": an access control.
func control(_ text: Substring) -> Any {
    let parts = text.split(separator: ",")
    let flags = SecAccessControlCreateFlags(rawValue: CFOptionFlags(parts[1]) ?? 0)
    return SecAccessControlCreateWithFlags(kCFAllocatorDefault, String(parts[0]), flags, nil) ?? "none"
}

/// "key=value" words as a dictionary; the values of flags, numbers, and data say what they are. "@" is the last persistent
/// reference, "^" a date in seconds.
func dictionary(_ words: some Sequence<Substring>) -> [String: Any] {
    var result: [String: Any] = [:]
    for word in words {
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
        let value = String(parts[1])
        switch value.first {
        case "!": result[String(parts[0])] = value == "!true"
        case "#": result[String(parts[0])] = Int(value.dropFirst()) ?? 0
        case "%": result[String(parts[0])] = number(value.dropFirst())
        case "@": result[String(parts[0])] = reference
        case "*": result[String(parts[0])] = [reference]
        case "&": result[String(parts[0])] = control(value.dropFirst())
        case "^": result[String(parts[0])] = Date(timeIntervalSince1970: Double(value.dropFirst()) ?? 0)
        case "~": result[String(parts[0])] = Data(base64Encoded: String(value.dropFirst()))
        case "$": result[String(parts[0])] = Data(value.dropFirst().utf8)
        default: result[String(parts[0])] = value
        }
    }
    return result
}

func shown(_ value: Any?) -> String {
    switch value {
    case let data as Data where data.count == 52:
        reference = data
        return "@"
    case let certificate as SecCertificate: return "certificate\(SecCertificateCopyData(certificate).count)"
    case let control as SecAccessControl: return "\(control)"
    case let data as Data: return "$" + String(decoding: data, as: UTF8.self)
    case let list as [Any]: return "[" + list.map { shown($0) }.sorted().joined(separator: ";") + "]"
    case let dictionary as [String: Any]:
        let others = dictionary.filter { !($0.value is Date) && !($0.value is SecAccessControl) }
        let kept = others.sorted { $0.key < $1.key }
        let dates = dictionary.values.compactMap { $0 as? Date }
        let now = Date()
        let areRecent = dates.allSatisfy { abs($0.timeIntervalSince(now)) < 600 }
        return "{" + kept.map { "\($0.key)=\(shown($0.value))" }.joined(separator: ",") + "}"
            + (dates.isEmpty ? "" : "dates\(dates.count)\(areRecent ? "" : "wrong")")
    case let number as Int: return "#\(number)"
    case let flag as Bool: return flag ? "!true" : "!false"
    case let text as String: return text
    case nil: return "nil"
    default: return "?"
    }
}

/// One answer, at once: the other side waits for it.
func print(_ items: Any...) {
    let line = items.map { "\($0)" }.joined(separator: " ")
    FileHandle.standardOutput.write(Data((line + "\n").utf8))
}

if CommandLine.arguments.count > 1, !SecretsMount.use(CommandLine.arguments[1]) {
    print("not on a protected mount")
}
while let line = readLine() {
    let words = line.split(separator: " ")
    let rest = words.dropFirst()
    switch words[0] {
    case "save": print(savePassword(String(words[2]), account: String(words[1])))
    case "read":
        let (status, password) = readPassword(account: String(words[1]))
        print(status, password ?? "nil")
    case "replace": print(deleteThenAdd(String(words[2]), account: String(words[1])))
    case "add", "copy":
        var result: AnyObject?
        let query = dictionary(rest) as CFDictionary
        let status = words[0] == "add" ? SecItemAdd(query, &result) : SecItemCopyMatching(query, &result)
        print(status, shown(result))
    case "update":
        let parts = rest.split(separator: "to")
        print(SecItemUpdate(dictionary(parts[0]) as CFDictionary, dictionary(parts[1]) as CFDictionary))
    case "delete": print(SecItemDelete(dictionary(rest) as CFDictionary))
    case "message": print(SecCopyErrorMessageString(OSStatus(words[1]) ?? 1, nil) ?? "nil")
    case "control":
        var error: Unmanaged<CFError>?
        let flags = SecAccessControlCreateFlags(rawValue: CFOptionFlags(words[2]) ?? 0)
        let made = SecAccessControlCreateWithFlags(nil, String(words[1]), flags, &error)
        print(shown(made), error.map { CFErrorGetCode($0.takeRetainedValue()) } ?? 0)
    case "group": SecretsMount.accessGroup = words.count > 1 ? String(words[1]) : ""
    case "mount": print(SecretsMount.path ?? "nil")
    default: print("unknown")
    }
}
