// A table of notes in SQLite, in a folder whose class SQLite's files inherit.

import FileProtection
import SQLite3

/// An error of SQLite.
struct DatabaseError: Error, CustomStringConvertible {
    let code: Int32
    let description: String
}

/// How SQLite keeps an unfinished transaction: the new pages in `-wal` and `-shm`, or the old pages in `-journal`.
enum JournalMode: String { case wal, delete }

/// A database of notes. Only one thread at a time uses the connection, which is closed with the object.
@safe final class Notebook {
    private var connection: OpaquePointer?

    /// Opens the database in a folder, and makes both if they are missing. The class is the folder's default. Every
    /// file that SQLite makes beside the database gets it, so the program need not know these files.
    init(in folder: URL, journal: JournalMode) throws {
        try FileManager.default.createDirectory(
            at: folder, withIntermediateDirectories: true,
            attributes: [.protectionKey: FileProtectionType.completeUntilFirstUserAuthentication])
        let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE
        try unsafe check(sqlite3_open_v2(folder.appendingPathComponent("notes.sqlite").path, &connection, flags, nil))
        try run("PRAGMA journal_mode = \(journal.rawValue)")
        try run("CREATE TABLE IF NOT EXISTS notes (text TEXT NOT NULL)")
    }

    deinit { unsafe sqlite3_close_v2(connection) }

    /// Begins a transaction. Added notes are durable after `commit`.
    func begin() throws { try run("BEGIN IMMEDIATE") }

    /// Makes the added notes durable.
    func commit() throws { try run("COMMIT") }

    func add(_ text: String) throws { _ = try run("INSERT INTO notes VALUES (?)", with: text) }

    func count() throws -> Int { try run("SELECT count(*) FROM notes") }

    /// Runs one statement and returns the number in its last row, or 0 if there is none.
    @discardableResult
    private func run(_ command: String, with text: String? = nil) throws -> Int {
        var statement: OpaquePointer?
        try unsafe check(sqlite3_prepare_v2(connection, command, -1, &statement, nil))
        defer { unsafe sqlite3_finalize(statement) }
        if let text {
            // SQLITE_TRANSIENT makes SQLite copy the text, which does not outlive the call.
            let copy = unsafe unsafeBitCast(-1, to: sqlite3_destructor_type.self)
            try unsafe check(sqlite3_bind_text(statement, 1, text, -1, copy))
        }
        var number = 0
        while true {
            let code = unsafe sqlite3_step(statement)
            try check(code)
            if code != SQLITE_ROW { return number }
            number = Int(unsafe sqlite3_column_int64(statement, 0))
        }
    }

    private func check(_ code: Int32) throws {
        if code == SQLITE_OK || code == SQLITE_ROW || code == SQLITE_DONE { return }
        throw DatabaseError(code: code, description: unsafe String(cString: sqlite3_errmsg(connection)))
    }
}
