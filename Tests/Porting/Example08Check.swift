// Example 8: which class a file has, with `switch`.

import FileProtection

func checkProtection(in directory: URL, _ words: [String]) throws {
    for word in words {
        let path = directory.appendingPathComponent(word).path
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        guard let protection = attributes[.protectionKey] as? FileProtectionType else {
            print("nil")
            continue
        }
        switch protection {
        case .complete: print("complete")
        case .completeUnlessOpen: print("unless open")
        case .completeUntilFirstUserAuthentication: print("until first unlock")
        case .none: print("none")
        default: print("unknown")
        }
    }
}
