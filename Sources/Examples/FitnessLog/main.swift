// A fitness log that is recorded in the background. Lines from standard input are samples. The log can be read only
// while the volume is unlocked, but recording continues in every state. The samples are merged into the log at each
// unlock and before each lock.

import FileProtection

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

guard CommandLine.arguments.count == 2, !CommandLine.arguments[1].hasPrefix("-") else {
    FileHandle.standardError.write(
        Data("Usage: fitness-log FOLDER    (samples from standard input, one a line)\n".utf8))
    exit(2)
}
let folder = URL(fileURLWithPath: CommandLine.arguments[1])

@Sendable func merge(_ recorder: Recorder) async {
    do {
        let count = try await recorder.merge()
        if count > 0 { say("merged \(count)") }
    } catch  where error.isProtectedDataUnavailable {
        // The volume was locked during the merge, because the grace was over. The segments still exist.
        say("not merged before the lock")
    } catch { say("merging failed: \(error)") }
}

do {
    let recorder = try Recorder(in: folder)
    let events = try ProtectedData(at: folder).events(answering: true)
    // The task is detached, because reading lines occupies the main actor.
    Task.detached {
        for try await event in events {
            switch event {
            case .connected(.unlocked), .firstUnlock, .unlocked: await merge(recorder)
            case .willLock(let lock):
                await merge(recorder)
                lock.done()
            default: break
            }
            // This comes last. Samples recorded from now on are merged at the next event.
            if case .connected(let state) = event { say("the volume is \(state.rawValue)") }
        }
    }
    while let line = readLine() {
        try await recorder.add(line)
        say("recorded")
    }
    if try ProtectedData(at: folder).isAvailable { await merge(recorder) }
} catch {
    FileHandle.standardError.write(Data("fitness-log: \(error)\n".utf8))
    exit(1)
}
