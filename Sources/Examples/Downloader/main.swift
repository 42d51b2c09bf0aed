// A downloader that goes on while the volume is locked: what comes on standard input goes into a file of class complete unless
// open. The handle that was opened while unlocked works until it is closed; opening the file again has to wait.

import FileProtection

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

guard CommandLine.arguments.count == 2, !CommandLine.arguments[1].hasPrefix("-") else {
    FileHandle.standardError.write(Data("Usage: downloader FILE    (what to save from standard input)\n".utf8))
    exit(2)
}
let url = URL(fileURLWithPath: CommandLine.arguments[1])
let attributes: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.completeUnlessOpen]
guard FileManager.default.createFile(atPath: url.path, contents: nil, attributes: attributes) else {
    say("not created")
    exit(1)
}
let handle = try FileHandle(forWritingTo: url)
var received = 0
while true {
    // What has come so far: read(upToCount:) would wait for all of it.
    let part = FileHandle.standardInput.availableData
    if part.isEmpty { break }
    // Not write(_:), which ends the process on an error.
    try handle.write(contentsOf: part)
    received += part.count
    say("received \(received)")
}
try handle.synchronize()
try handle.close()

if (try? FileHandle(forReadingFrom: url)) == nil {
    say("complete; it can be opened after the next unlock")
    try await ProtectedData(at: url).waitUntilAvailable()
}
let reader = try FileHandle(forReadingFrom: url)
say("opened: \(try reader.readToEnd()?.count ?? 0) bytes")
try reader.close()
