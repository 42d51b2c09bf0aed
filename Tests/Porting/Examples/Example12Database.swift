// Example 12: a database's folder has the class, so that SQLite's journal files beside it have it too.

import FileProtection
import SQLite3

struct DatabaseError: Error {
    let code: Int32
    let message: String
}

final class Database {
    private var connection: OpaquePointer?

    init(in folder: URL) throws {
        try FileManager.default.createDirectory(
            at: folder,
            withIntermediateDirectories: true,
            attributes: [.protectionKey: FileProtectionType.completeUntilFirstUserAuthentication]
        )
        let path = folder.appendingPathComponent("main.sqlite").path
        try check(sqlite3_open_v2(path, &connection, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nil))
        try execute("PRAGMA journal_mode = WAL")
        try execute("CREATE TABLE IF NOT EXISTS notes (text TEXT NOT NULL)")
    }

    deinit { sqlite3_close_v2(connection) }

    func addNote(_ text: String) throws {
        var statement: OpaquePointer?
        try check(sqlite3_prepare_v2(connection, "INSERT INTO notes VALUES (?)", -1, &statement, nil))
        defer { sqlite3_finalize(statement) }
        let copies = unsafeBitCast(-1, to: sqlite3_destructor_type.self)
        try check(sqlite3_bind_text(statement, 1, text, -1, copies))
        try check(sqlite3_step(statement))
    }

    func countNotes() throws -> Int {
        var statement: OpaquePointer?
        try check(sqlite3_prepare_v2(connection, "SELECT count(*) FROM notes", -1, &statement, nil))
        defer { sqlite3_finalize(statement) }
        try check(sqlite3_step(statement))
        return Int(sqlite3_column_int64(statement, 0))
    }

    private func execute(_ text: String) throws {
        try check(sqlite3_exec(connection, text, nil, nil, nil))
    }

    private func check(_ code: Int32) throws {
        guard ![SQLITE_OK, SQLITE_ROW, SQLITE_DONE].contains(code) else { return }
        throw DatabaseError(code: code, message: String(cString: sqlite3_errmsg(connection)))
    }
}
