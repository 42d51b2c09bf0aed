// A table of notes in SQLite, in a folder whose class the files of SQLite inherit.

import FileProtection
import SQLite3

/// What SQLite says.
struct DatabaseError: Error, CustomStringConvertible {
    let code: Int32
    let description: String
}

/// How SQLite keeps a transaction until it is whole: in `-wal` and `-shm`, or the old pages in `-journal`.
enum JournalMode: String { case wal, delete }

/// The connection is used by one thread at a time, and closed with the object.
@safe final class Notebook {
    private var connection: OpaquePointer?

    /// Opens the database in a folder, or makes both. The class is the folder's default, and so that of every file which
    /// SQLite makes beside the database, now and later: no file of its own needs to be known.
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

    /// Begins a transaction; what is added is kept from `commit` on.
    func begin() throws { try run("BEGIN IMMEDIATE") }

    /// Makes what was added durable.
    func commit() throws { try run("COMMIT") }

    func add(_ text: String) throws { _ = try run("INSERT INTO notes VALUES (?)", with: text) }

    func count() throws -> Int { try run("SELECT count(*) FROM notes") }

    /// Runs one statement; gives the number in its last row, where there is one.
    @discardableResult
    private func run(_ command: String, with text: String? = nil) throws -> Int {
        var statement: OpaquePointer?
        try unsafe check(sqlite3_prepare_v2(connection, command, -1, &statement, nil))
        defer { unsafe sqlite3_finalize(statement) }
        if let text {
            // The text has to outlive the call: SQLite is to make a copy (SQLITE_TRANSIENT).
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
