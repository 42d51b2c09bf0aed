// Prints the results of the examples for the test.

import FileProtection

/// An error in one line: `CocoaError 257 EACCES NSFileProtectionComplete unavailable`.
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

/// Runs one step that gives something, and prints that.
func show(_ name: String, _ body: () throws -> Any) {
    do { print("\(name): \(try body())") } catch { print("\(name): \(outcome(of: error))") }
}

/// The class of a file, by the name that Foundation has for it.
func protection(of url: URL) throws -> String {
    let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
    return (attributes[.protectionKey] as? FileProtectionType)?.rawValue ?? "nil"
}

func text(_ data: Data?) -> String { data.map { String(decoding: $0, as: UTF8.self) } ?? "nil" }

/// One line to the test at once; Swift's own would keep it until the end.
func print(_ items: Any...) {
    FileHandle.standardOutput.write(Data((items.map { "\($0)" }.joined(separator: " ") + "\n").utf8))
}
