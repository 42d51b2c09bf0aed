// The code examples of the documents as programs: `porting-examples NAME DIRECTORY [WORD…]`, run by Tests/Mount. The files
// Example*.swift are as the documents write them, but for the import. Here they are called, and their outcome is printed.

import UIKitCompat

let words = CommandLine.arguments
guard words.count > 2, let example = examples[words[1]] else {
    print("usage: porting-examples \(examples.keys.sorted().joined(separator: "|")) DIRECTORY [WORD…]")
    exit(2)
}
do {
    try example(URL(fileURLWithPath: words[2]), Array(words.dropFirst(3)))
} catch {
    print(outcome(of: error))
}
