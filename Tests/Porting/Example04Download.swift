// Example 4: a download goes on through a lock, in a file that cannot be opened again until unlock.

import FileProtection

func backgroundDownload(in directory: URL, _ words: [String]) throws {
    let url = directory.appendingPathComponent("download")
    try Data().write(to: url, options: .completeFileProtectionUnlessOpen)
    let handle = try FileHandle(forWritingTo: url)
    try handle.write(contentsOf: Data("first ".utf8))
    print("open")
    _ = readLine()
    step("write on") { try handle.write(contentsOf: Data("second".utf8)) }
    try handle.close()
    step("reopen") { try FileHandle(forReadingFrom: url).close() }
    print("closed")
    _ = readLine()
    print(try String(contentsOf: url, encoding: .utf8))
}
