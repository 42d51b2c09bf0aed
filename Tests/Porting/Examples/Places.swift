// Tests the places of written files: through links, `..`, and names that another program has taken.

import FileProtection

/// The words are verbs, each with its paths, which are taken as they are.
func places(in directory: URL, _ words: [String]) {
    var rest = words[...]
    while let verb = rest.popFirst(), let path = rest.popFirst() { place(verb, path, &rest) }
}

private func place(_ verb: String, _ path: String, _ rest: inout ArraySlice<String>) {
    let url = URL(fileURLWithPath: path)
    let data = Data("new".utf8)
    let manager = FileManager.default
    switch verb {
    case "complete": step(verb) { try data.write(to: url, options: [.atomic, .completeFileProtection]) }
    case "atomic": step(verb) { try data.write(to: url, options: .atomic) }
    case "in-place": step(verb) { try data.write(to: url, options: .completeFileProtection) }
    case "once": step(verb) { try data.write(to: url, options: [.withoutOverwriting, .completeFileProtection]) }
    case "string": step(verb) { try "new".write(to: url, atomically: true, encoding: .utf8) }
    case "create":
        show(verb) {
            manager.createFile(
                atPath: path, contents: data, attributes: [.protectionKey: FileProtectionType.complete])
        }
    case "directory":
        step(verb) {
            try manager.createDirectory(
                atPath: path, withIntermediateDirectories: false,
                attributes: [.protectionKey: FileProtectionType.complete])
        }
    case "class":
        show(verb) { try protection(of: url) }
        show("value") { try url.resourceValues(forKeys: [.fileProtectionKey]).fileProtection?.rawValue ?? "nil" }
    default: place(verb, path, with: rest.popFirst() ?? "")
    }
}

private func place(_ verb: String, _ path: String, with other: String) {
    let manager = FileManager.default
    switch verb {
    case "replace":
        step(verb) {
            _ = try manager.replaceItemAt(URL(fileURLWithPath: path), withItemAt: URL(fileURLWithPath: other))
        }
    case "move": step(verb) { try manager.moveItem(atPath: path, toPath: other) }
    case "copy": step(verb) { try manager.copyItem(atPath: path, toPath: other) }
    default: print("no such verb: \(verb)")
    }
}
