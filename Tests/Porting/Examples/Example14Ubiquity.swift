// Example 14: without an iCloud container the function returns.

import FileProtection

func saveToCloud(_ data: Data, named name: String) throws {
    guard let container = FileManager.default.url(forUbiquityContainerIdentifier: nil) else {
        print("no container")
        return
    }
    let url = container.appendingPathComponent("Documents").appendingPathComponent(name)
    try data.write(to: url, options: .completeFileProtection)
}
