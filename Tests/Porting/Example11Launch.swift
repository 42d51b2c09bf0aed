// Example 11: at launch the standard directories get the class that new files are to have.

import FileProtection

func protectStandardDirectories(in directory: URL, _ words: [String]) throws {
    let manager = FileManager.default
    for place in [FileManager.SearchPathDirectory.documentDirectory, .applicationSupportDirectory, .cachesDirectory] {
        guard let url = manager.urls(for: place, in: .userDomainMask).first else { continue }
        step(url.lastPathComponent) {
            try manager.createDirectory(at: url, withIntermediateDirectories: true)
            try manager.setAttributes([.protectionKey: FileProtectionType.complete], ofItemAtPath: url.path)
            let file = url.appendingPathComponent("new")
            try Data("x".utf8).write(to: file)
            let found = try manager.attributesOfItem(atPath: file.path)[.protectionKey] as? FileProtectionType
            print(url.path, found?.rawValue ?? "nil")
        }
    }
}
