// The table of the examples, and how they tell the test what came of them.

import FileProtection

/// An example gets a directory and the rest of the words; it prints what came of it.
typealias Example = @Sendable (URL, [String]) throws -> Void

let examples: [String: Example] = [
    "save": saveSensitiveData, "set": setOnExistingFile, "directory": directoryDefault, "download": backgroundDownload,
    "until": untilFirstUnlock, "read": readSensitiveData, "thumbnail": publicThumbnail, "check": checkProtection,
    "user": saveUser, "launch": protectStandardDirectories, "database": openDatabase, "lower": lowerProtection,
    "ubiquity": ubiquityContainer, "resource": resourceValues, "nsdata": dataForms, "plain": saveWithoutClass,
    "atomic": atomicWriters, "files": copyMoveReplace, "policy": policies, "attributes": attributesTogether,
]

/// What an error says, in one line: `CocoaError 257 EACCES NSFileProtectionComplete unavailable`.
func outcome(of error: any Error) -> String {
    if let error = error as? FileProtectionError {
        if case .notProtected = error { return "notProtected" }
        return "\(error)"
    }
    let cocoa = error as NSError
    let cause = (cocoa.userInfo[NSUnderlyingErrorKey] as? any Error).map { ($0 as NSError).code }
    let words = [
        "\(cocoa.domain == NSCocoaErrorDomain ? "CocoaError" : cocoa.domain) \(cocoa.code)",
        cause.map { $0 == Int(EACCES) ? "EACCES" : "errno \($0)" }, error.protectedClass?.rawValue,
        error.isProtectedDataUnavailable ? "unavailable" : nil,
        cocoa.userInfo[NSFilePathErrorKey] == nil ? "no path" : nil,
    ]
    return words.compactMap { $0 }.joined(separator: " ")
}

/// Runs one step, and prints its name with what came of it.
func step(_ name: String, _ body: () throws -> Void) {
    do {
        try body()
        print("\(name): ok")
    } catch {
        print("\(name): \(outcome(of: error))")
    }
}

/// One line to the test at once; print would keep it until the end.
func print(_ items: Any...) {
    FileHandle.standardOutput.write(Data((items.map { "\($0)" }.joined(separator: " ") + "\n").utf8))
}
