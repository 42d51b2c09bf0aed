// Many writes beside each other at the same time.

import FileProtection

/// Replaces a few files of the directory by several threads; each content is one letter, repeated.
func crowd(in directory: URL, _ words: [String]) {
    crowd(100, .completeFileProtection) { number in
        (directory / "file\(number % 3)", UInt8(ascii: "a") + UInt8(number % 26))
    }
}

/// Replaces twenty files of class B, which can be written while the volume is locked, from the number that is given on. The
/// content of each is its number.
func crowdWhileLocked(in directory: URL, _ words: [String]) {
    let first = Int(words[0]) ?? 0
    crowd(20, .completeFileProtectionUnlessOpen) { number in
        (directory / "file\(first + number)", UInt8(first + number))
    }
}

private func crowd(
    _ count: Int, _ option: Data.WritingOptions, _ write: @Sendable (Int) -> (place: URL, byte: UInt8)
) {
    let failures = NSLock()
    nonisolated(unsafe) var messages: [String] = []
    DispatchQueue.concurrentPerform(iterations: count) { number in
        let (place, byte) = write(number)
        do {
            try Data(repeating: byte, count: 5000).write(to: place, options: [.atomic, option])
        } catch {
            failures.withLock { messages.append(outcome(of: error)) }
        }
    }
    print("failed: \(messages)")
}
