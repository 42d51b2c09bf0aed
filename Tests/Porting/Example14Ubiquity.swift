// Example 14: without an iCloud container the function returns.

import FileProtection

func ubiquityContainer(in directory: URL, _ words: [String]) throws {
    guard let container = FileManager.default.url(forUbiquityContainerIdentifier: nil) else {
        print("no container")
        return
    }
    try Data("x".utf8).write(to: container.appendingPathComponent("x"), options: .completeFileProtection)
}
