// What Foundation on Linux does by itself, a small program for each finding of docs/program/porting.md: `porting-linux NAME
// DIRECTORY`. `downloadTask` takes its address from the variable ADDRESS. No file here imports FileProtection.

// protectfs: plain Foundation: what it does without this library is what is shown
import Foundation
import FoundationNetworking

/// What a finding prints after its name.
typealias Finding = (URL) throws -> String

let findings: [String: Finding] = [
    "replaceItemAt": { directory in
        let (old, new) = (directory.appendingPathComponent("old"), directory.appendingPathComponent("new"))
        do { _ = try FileManager.default.replaceItemAt(old, withItemAt: new) } catch {
            let isLost = !FileManager.default.fileExists(atPath: old.path)
            return "\(code(error)), the item \(isLost ? "is lost" : "is there")"
        }
        return "replaced"
    },
    "replaceDirectory": { directory in
        let (old, new) = (directory.appendingPathComponent("old"), directory.appendingPathComponent("new"))
        _ = try FileManager.default.replaceItemAt(old, withItemAt: new)
        return "replaced"
    },
    "itemReplacementDirectory": { directory in
        let place = try FileManager.default.url(
            for: .itemReplacementDirectory, in: .userDomainMask,
            appropriateFor: directory.appendingPathComponent("old"),
            create: true)
        defer { try? FileManager.default.removeItem(at: place) }
        return try volume(of: place) == volume(of: directory) ? "near" : "on another file system"
    },
    "streamError": { directory in
        guard let stream = InputStream(url: directory.appendingPathComponent("old")) else { return "no stream" }
        stream.open()
        return "\(stream.streamError.map { "\(($0 as NSError).code)" } ?? "nil")"
    },
    "isExcludedFromBackup": { directory in
        var url = directory.appendingPathComponent("old")
        var values = URLResourceValues()
        values.isExcludedFromBackup = true
        try url.setResourceValues(values)
        return "\(try url.resourceValues(forKeys: [.isExcludedFromBackupKey]).isExcludedFromBackup ?? false)"
    },
    "creationDate": { directory in
        let path = directory.appendingPathComponent("old").path
        let date = Date(timeIntervalSince1970: 1_000_000)
        try FileManager.default.setAttributes([.creationDate: date], ofItemAtPath: path)
        let found = try FileManager.default.attributesOfItem(atPath: path)[.creationDate] as? Date
        return found == date ? "set" : "not set, and no error"
    },
    "checkResourceIsReachable": { directory in
        let link = directory.appendingPathComponent("link")
        try FileManager.default.createSymbolicLink(atPath: link.path, withDestinationPath: "nowhere")
        return "\(try link.checkResourceIsReachable())"
    },
    "isHidden": { directory in
        var url = directory.appendingPathComponent("old")
        var values = URLResourceValues()
        values.isHidden = true
        try url.setResourceValues(values)
        return "set"
    },
    "downloadTask": { directory in
        guard let address = ProcessInfo.processInfo.environment["ADDRESS"].flatMap({ URL(string: $0) }) else {
            return "no address"
        }
        let done = DispatchSemaphore(value: 0)
        URLSession.shared.downloadTask(with: address) { _, _, _ in done.signal() }.resume()
        done.wait()
        return "ended"
    },
    "immutable": { directory in
        let path = directory.appendingPathComponent("old").path
        try FileManager.default.setAttributes([.immutable: true], ofItemAtPath: path)
        return "set"
    },
]

func code(_ error: any Error) -> String { "\((error as NSError).domain) \((error as NSError).code)" }

func volume(of url: URL) throws -> Int {
    try FileManager.default.attributesOfItem(atPath: url.path)[.systemNumber] as? Int ?? -1
}

let words = CommandLine.arguments
guard words.count == 3, let finding = findings[words[1]] else {
    print("Usage: porting-linux \(findings.keys.sorted().joined(separator: "|")) DIRECTORY")
    exit(2)
}
do { print("\(words[1]): \(try finding(URL(fileURLWithPath: words[2])))") } catch {
    print("\(words[1]): \(code(error))")
}
