// Times small writes for mount-scripts/measure/write-costs: Foundation's atomic write and the library's write with a class,
// in turn. `porting-write-costs DIRECTORY COUNT ROUNDS` prints a line for each round: KIND NANOSECONDS NANOSECONDS.

import FileProtection
import PlainFoundation

let words = CommandLine.arguments
guard words.count == 4, let count = Int(words[2]), let rounds = Int(words[3]) else {
    print("Usage: porting-write-costs DIRECTORY COUNT ROUNDS")
    exit(2)
}
let directory = URL(fileURLWithPath: words[1])
let data = Data(repeating: 120, count: 1000)
let clock = ContinuousClock()

func nanoseconds(_ body: () throws -> Void) rethrows -> Int64 {
    let time = try clock.measure(body).components
    return time.seconds * 1_000_000_000 + time.attoseconds / 1_000_000_000
}

/// Both ways to write `count` files, each with its own names; the order changes from round to round.
func round(_ number: Int, _ options: Data.WritingOptions, isNew: Bool) throws -> (plain: Int64, protected: Int64) {
    let names = (0..<count).map { isNew ? "\(number)-\($0)" : "\($0)" }
    let plainURLs = names.map { directory.appendingPathComponent("plain-" + $0) }
    let protectedURLs = names.map { directory.appendingPathComponent("protected-" + $0) }
    var (plain, protected): (Int64, Int64) = (0, 0)
    for turn in 0..<2 {
        if turn == number % 2 {
            plain = try nanoseconds { for url in plainURLs { try Plain.write(data, to: url, options: .atomic) } }
        } else {
            protected = try nanoseconds { for url in protectedURLs { try data.write(to: url, options: options) } }
        }
    }
    if isNew { for url in plainURLs + protectedURLs { try FileManager.default.removeItem(at: url) } }
    return (plain / Int64(count), protected / Int64(count))
}

let kinds: [(String, Data.WritingOptions, Bool)] = [
    ("new", [.atomic, .completeFileProtection], true), ("over", [.atomic, .completeFileProtection], false),
    ("in-place", .completeFileProtection, false), ("unlessOpen", [.atomic, .completeFileProtectionUnlessOpen], true),
]
for (name, options, isNew) in kinds {
    // The first round makes the files that later ones write over, and is not counted.
    _ = try round(0, options, isNew: isNew)
    for number in 1...rounds {
        let times = try round(number, options, isNew: isNew)
        print("\(name) \(times.plain) \(times.protected)")
    }
}
