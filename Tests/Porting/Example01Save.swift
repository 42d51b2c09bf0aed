// Example 1: sensitive data is saved so that it can be read only while the volume is unlocked.

import FileProtection

func saveSensitiveData(in directory: URL, _ words: [String]) throws {
    let data = Data("my secret".utf8)
    let url = directory.appendingPathComponent(words.first ?? "secret.dat")
    try data.write(to: url, options: .completeFileProtection)
    try data.write(to: url, options: [.atomic, .completeFileProtection])
    print("saved")
}

/// Without a class in the options: a file that is there keeps its own.
func saveWithoutClass(in directory: URL, _ words: [String]) throws {
    let data = Data("changed".utf8)
    step("atomic") { try data.write(to: directory.appendingPathComponent(words[0]), options: .atomic) }
    step("in place") { try data.write(to: directory.appendingPathComponent(words[0])) }
}
