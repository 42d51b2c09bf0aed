// A database that works while the volume is locked. Lines from standard input become rows of SQLite, and an empty line
// commits them. Its folder has the class complete until first user authentication, and so have the journal files that
// SQLite makes beside the database. Before the first unlock the database cannot be opened, so the program waits.

import FileProtection

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

let arguments = CommandLine.arguments.dropFirst()
guard let path = arguments.last, !path.hasPrefix("-"), arguments.dropLast().allSatisfy({ $0 == "--rollback" }) else {
    FileHandle.standardError.write(
        Data("Usage: database [--rollback] FOLDER    (lines from standard input; an empty one commits)\n".utf8))
    exit(2)
}
let folder = URL(fileURLWithPath: path)
let mode: JournalMode = arguments.count > 1 ? .delete : .wal

func open() async throws -> Notebook {
    // The state is read before the attempt. Otherwise an unlock in between would make a locked file look like another
    // error.
    let protected = try ProtectedData(at: folder)
    let isClosed = protected.state == .beforeFirstUnlock
    do {
        return try Notebook(in: folder, journal: mode)
    } catch let error as DatabaseError where isClosed {
        say("closed until the first unlock: \(error)")
        try await protected.waitUntilFirstUnlock()
        return try Notebook(in: folder, journal: mode)
    }
}

do {
    let notebook = try await open()
    say("open: \(try notebook.count()) notes")
    var isWriting = false
    while let line = readLine() {
        if line.isEmpty {
            if isWriting { try notebook.commit() }
            isWriting = false
            say("kept: \(try notebook.count()) notes")
        } else {
            if !isWriting { try notebook.begin() }
            isWriting = true
            try notebook.add(line)
            say("added")
        }
    }
    if isWriting { try notebook.commit() }
} catch {
    FileHandle.standardError.write(Data("database: \(error)\n".utf8))
    exit(1)
}
