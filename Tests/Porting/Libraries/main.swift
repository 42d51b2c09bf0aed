// Drives the programs of this folder for Tests/Mount: `porting-libraries NAME DIRECTORY CLASS`. Each line that comes is a
// command of the program; each command prints lines.

import FileProtection

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

func told(_ body: () throws -> String) {
    do { say(try body()) } catch {
        say("\((error as NSError).code)\(error.isProtectedDataUnavailable ? " unavailable" : "")")
    }
}

struct Person: Codable, Equatable {
    let name: String
    let born: Date
}

func cache(_ directory: URL, _ type: FileProtectionType) throws {
    let cache = try DiskCache(in: directory, class: type, mostBytes: 400)
    let (now, person) = (Date(), Person(name: "Ada", born: Date(timeIntervalSince1970: -4_000_000_000)))
    while let line = readLine() {
        let words = line.split(separator: " ").map(String.init)
        switch words[0] {
        case "set":
            told {
                try cache.set(person, for: words[1], expiring: now.addingTimeInterval(Double(words[2]) ?? 0))
                return "set"
            }
        case "get": told { try cache.value(Person.self, for: words[1]) == person ? "found" : "nothing" }
        case "remove":
            told {
                try cache.remove(words[1])
                return "removed"
            }
        case "expire": told { "\(try cache.removeExpired(now: now.addingTimeInterval(Double(words[1]) ?? 0)))" }
        case "size": told { "\(try cache.size())" }
        case "clear":
            told {
                try cache.removeAll()
                return "\(try cache.size())"
            }
        default: say("?")
        }
    }
}

func log(_ directory: URL, _ type: FileProtectionType) {
    let log = RotatingLog(
        at: directory.appendingPathComponent("main.log"), class: type, mostBytes: 30, mostFiles: 3)
    while let line = readLine() {
        told {
            try log.log(line)
            return "\(log.waiting.count) waiting"
        }
    }
    try? log.close()
}

func downloads(_ directory: URL, _ type: FileProtectionType) throws {
    let downloads = try Downloads(in: directory, class: type) { name, error in
        let why = error.map { "\(($0 as NSError).code)\($0.isProtectedDataUnavailable ? " unavailable" : "")" }
        say("\(name): \(why ?? "kept")")
    }
    while let line = readLine() {
        let words = line.split(separator: " ").map(String.init)
        if words[0] == "keep" {
            told { try downloads.keepWhole().joined(separator: " ") }
        } else if let address = URL(string: words[0]) {
            told {
                try downloads.begin(address, as: words[1])
                return "begun"
            }
        }
    }
}

func tree(_ directory: URL, _ type: FileProtectionType) {
    let archive = directory.appendingPathComponent("archive")
    while let line = readLine() {
        let url = directory.appendingPathComponent(String(line.split(separator: " ")[1]))
        told {
            switch line.split(separator: " ")[0] {
            case "pack": try Tree(of: url).write(to: archive, class: type)
            case "unpack":
                try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
                try Tree.read(archive).unpack(into: url)
            default: return "?"
            }
            return "ok"
        }
    }
}

let words = CommandLine.arguments
guard words.count == 4 else {
    say("Usage: porting-libraries cache|log|downloads|tree DIRECTORY CLASS")
    exit(2)
}
let (directory, type) = (URL(fileURLWithPath: words[2]), FileProtectionType(rawValue: words[3]))
switch words[1] {
case "cache": try cache(directory, type)
case "log": log(directory, type)
case "downloads": try downloads(directory, type)
case "tree": tree(directory, type)
default: exit(2)
}
