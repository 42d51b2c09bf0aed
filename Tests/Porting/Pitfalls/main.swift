// Pitfalls of docs/program/porting.md, one at a time: opens a file, waits for a line while the mount is locked, goes on.

import FileProtection

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

/// The result of a call, or its error.
func outcome(_ call: () throws -> String) -> String {
    do { return try call() } catch {
        return "\((error as NSError).code) \(error.isProtectedDataUnavailable)"
    }
}

/// The lock comes here.
func waitForLock() {
    say("open")
    _ = readLine()
}

let words = Array(CommandLine.arguments.dropFirst())
let url = URL(fileURLWithPath: words[1])

switch words[0] {
case "readData":
    let handle = try FileHandle(forReadingFrom: url)
    waitForLock()
    say("\(handle.readData(ofLength: 4).count) bytes")
case "readUpToCount":
    let handle = try FileHandle(forReadingFrom: url)
    waitForLock()
    say(outcome { "\(try handle.read(upToCount: 4)?.count ?? 0) bytes" })
    _ = readLine()
    say(outcome { "\(try handle.read(upToCount: 4)?.count ?? 0) bytes" })
case "write":
    let handle = try FileHandle(forWritingTo: url)
    waitForLock()
    handle.write(Data("new".utf8))
    say("written")
case "writeContents":
    let handle = try FileHandle(forWritingTo: url)
    waitForLock()
    say(
        outcome {
            try handle.write(contentsOf: Data("new".utf8)); return "written"
        })
case "truncate":
    let handle = try FileHandle(forUpdating: url)
    waitForLock()
    say(
        outcome {
            try handle.truncate(atOffset: 1); return "cut"
        })
case "mapped":
    let data = try Data(contentsOf: url, options: .alwaysMapped)
    waitForLock()
    say("\(data[data.startIndex])")
case "read":
    let data = try Data(contentsOf: url)
    waitForLock()
    say("\(data[data.startIndex])")
case "questions":
    waitForLock()
    let manager = FileManager.default
    say("exists \(manager.fileExists(atPath: url.path)), readable \(manager.isReadableFile(atPath: url.path))")
    let size = try manager.attributesOfItem(atPath: url.path)[.size] ?? 0
    say("writable \(manager.isWritableFile(atPath: url.path)), size \(size)")
    say("handle \(FileHandle(forReadingAtPath: url.path) == nil ? "nil" : "opened")")
case "string":
    waitForLock()
    let atomically = words[2] == "atomically"
    say(
        outcome {
            try "text".write(to: url, atomically: atomically, encoding: .utf8)
            return "written"
        })
default: exit(2)
}
