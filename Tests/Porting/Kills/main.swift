// One call of FileProtection for Tests/Mount/porting/test_porting_kills.py, which stops and kills it at each of its system calls.
//
// `porting-kills WORD…` does it and ends; the test learns from SIGSTOP where it begins. `porting-kills serve` does a line
// of words after the other, and answers each with what came of it.

import FileProtection
import Glibc

func url(_ path: String) -> URL { URL(fileURLWithPath: path) }

/// The class that a word names; `-`: none.
func type(_ word: String) -> FileProtectionType? {
    ["A": .complete, "B": .completeUnlessOpen, "C": .completeUntilFirstUserAuthentication, "D": .none][word]
}

func attributes(_ word: String) -> [FileAttributeKey: Any]? { type(word).map { [.protectionKey: $0] } }

func option(_ word: String) -> Data.WritingOptions {
    [
        "A": .completeFileProtection, "B": .completeFileProtectionUnlessOpen,
        "C": .completeFileProtectionUntilFirstUserAuthentication, "D": .noFileProtection,
    ][word] ?? []
}

let content = Data(String(repeating: "new", count: 3000).utf8)
let manager = FileManager.default

func call(_ words: [String]) throws {
    switch words[0] {
    case "atomic": try content.write(to: url(words[2]), options: [option(words[1]), .atomic])
    case "in-place": try content.write(to: url(words[2]), options: option(words[1]))
    case "create":
        guard manager.createFile(atPath: words[2], contents: content, attributes: attributes(words[1])) else {
            throw CocoaError(.fileWriteUnknown)
        }
    case "attributes":
        let mode: [FileAttributeKey: Any] = [.posixPermissions: 0o640]
        try manager.setAttributes(
            mode.merging(attributes(words[1]) ?? [:]) { first, _ in first }, ofItemAtPath: words[2])
    case "directory":
        try manager.createDirectory(
            atPath: words[2], withIntermediateDirectories: true, attributes: attributes(words[1]))
    case "copy": try manager.copyItem(at: url(words[1]), to: url(words[2]))
    case "move": try manager.moveItem(at: url(words[1]), to: url(words[2]))
    case "replace":
        let backup = words.count > 3 ? words[3] : nil
        _ = try manager.replaceItemAt(url(words[1]), withItemAt: url(words[2]), backupItemName: backup)
    default: throw CocoaError(.featureUnsupported)
    }
}

let words = Array(CommandLine.arguments.dropFirst())
if words == ["serve"] {
    while let line = readLine() {
        var answer = "done"
        do { try call(line.split(separator: "\t").map(String.init)) } catch { answer = "\(error)" }
        FileHandle.standardOutput.write(Data((answer + "\n").utf8))
    }
} else {
    raise(SIGSTOP)
    do { try call(words) } catch {
        FileHandle.standardError.write(Data("\(error)\n".utf8))
        exit(1)
    }
}
