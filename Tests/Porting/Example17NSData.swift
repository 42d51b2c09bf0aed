// Example 17: the forms of NSData.

import FileProtection

func dataForms(in directory: URL, _ words: [String]) throws {
    let data = Data("abc".utf8) as NSData
    step("a") { try data.write(to: directory.appendingPathComponent("nsdata.a"), options: .completeFileProtection) }
    step("b") {
        let path = directory.appendingPathComponent("nsdata.b").path
        try data.write(toFile: path, options: [.atomic, .completeFileProtectionUnlessOpen])
    }
    step("c") {
        let path = directory.appendingPathComponent("nsdata.c").path
        try data.write(toFile: path, options: .completeFileProtectionUntilFirstUserAuthentication)
    }
    step("d") { try data.write(to: directory.appendingPathComponent("nsdata.d"), options: .noFileProtection) }
    let existing = directory.appendingPathComponent("nsdata.d").path
    print(data.write(toFile: existing, atomically: true), data.write(toFile: directory.path, atomically: true))
}
