// Drives VolumeControl for Tests/Mount/porting/test_control_library.py: does one thing and prints what comes of it.

import Glibc
import VolumeControl

/// What `events` prints is read line by line.
func say(_ text: String) {
    print(text)
    fflush(nil)
}

func volume(_ path: String) throws -> MountedVolume { try MountedVolume(containing: path) }

func kind(_ word: String) -> GuardedSecret.Kind {
    switch word {
    case "recovery": .recoveryCode
    case "recipient": .recipientKey
    default: .passphrase
    }
}

let words = Array(CommandLine.arguments.dropFirst())
do {
    switch words[0] {
    case "all":
        for volume in try MountedVolume.all() { say("\(volume.mountPoint) \(volume.store)") }
    case "at":
        let volume = try MountedVolume(at: words[1])
        say("\(volume.mountPoint) \(volume.store)")
    case "status":
        let status = try volume(words[1]).status()
        say("\(status.state) \(status.isReadOnly) \(status.openCompleteFiles) \(status.failedUnlocks)")
    case "lock":
        let lock = try volume(words[1]).lock()
        say("\(lock.state) \(lock.wasLocked) \(lock.cutOff)")
    case "unlock":
        let secret = try GuardedSecret(kind(words[2]), readingLineFrom: 0)
        say("\(try volume(words[1]).unlock(secret))")
    case "copied":
        // What a window does that has the bytes of its own field.
        let typed = Array(words[2].utf8)
        say("\(try volume(words[1]).unlock(GuardedSecret(copying: typed.span)))")
    case "mount":
        let secret = words[3] == "none" ? nil : try GuardedSecret(kind(words[3]), readingLineFrom: 0)
        let volume = try MountedVolume.mount(
            words[1], at: words[2], options: Array(words.dropFirst(4)), unlockingWith: secret)
        say("\(volume.mountPoint) \(try volume.status().state)")
    case "unmount":
        try volume(words[1]).unmount(isForced: words.contains("force"))
        say("unmounted")
    case "events":
        for try await event in try volume(words[1]).events() { say("\(event)") }
        say("ended")
    default:
        say("unknown word \(words[0])")
        exit(2)
    }
} catch {
    say("error \(error)")
    exit(1)
}
