// Example 8: tests a file's class with `switch`.

import FileProtection

func describeProtection(ofFileAt url: URL) throws -> String {
    let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
    guard let protection = attributes[.protectionKey] as? FileProtectionType else { return "unprotected place" }
    switch protection {
    case .complete: return "only while unlocked"
    case .completeUnlessOpen: return "opened while unlocked"
    case .completeUntilFirstUserAuthentication: return "after the first unlock"
    case .none: return "always"
    default: return "unknown"
    }
}
