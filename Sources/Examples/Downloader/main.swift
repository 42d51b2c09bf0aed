// A downloader that continues while the volume is locked. It writes standard input to a file of class complete unless
// open. A handle that was opened while the volume was unlocked works until it is closed. The file can be opened again
// only after the unlock.

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
    // This returns the bytes that have arrived. read(upToCount:) would wait for all of them.
    let part = FileHandle.standardInput.availableData
    if part.isEmpty { break }
    // write(_:) would end the process on an error.
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
