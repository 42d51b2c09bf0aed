// A connection to SQLite in the manner of libraries around it: the class is among the flags with which the database is opened.

import FileProtection

#if SQLITE
    import SQLite3

    /// One connection. Its statements give the last number of their last row.
    private final class Connection {
        private var handle: OpaquePointer?

        init(_ path: String, flags: Int32) throws {
            let flags = try FileProtection.prepareDatabase(at: path, flags: flags)
            try check(sqlite3_open_v2(path, &handle, flags, nil))
        }

        deinit { sqlite3_close_v2(handle) }

        @discardableResult func run(_ command: String) throws -> Int {
            var statement: OpaquePointer?
            try check(sqlite3_prepare_v2(handle, command, -1, &statement, nil))
            defer { sqlite3_finalize(statement) }
            var number = 0
            while true {
                let code = sqlite3_step(statement)
                try check(code)
                if code != SQLITE_ROW { return number }
                number = Int(sqlite3_column_int64(statement, 0))
            }
        }

        private func check(_ code: Int32) throws {
            if ![SQLITE_OK, SQLITE_ROW, SQLITE_DONE].contains(code) { throw SQLiteFailure(code: code) }
        }
    }

    private struct SQLiteFailure: Error { let code: Int32 }
#endif

/// Each word is a flag's name; its database is made, written and read.
func databases(in directory: URL, _ words: [String]) {
    #if SQLITE
        let classes = [
            "complete": SQLITE_OPEN_FILEPROTECTION_COMPLETE,
            "unlessOpen": SQLITE_OPEN_FILEPROTECTION_COMPLETEUNLESSOPEN,
            "first": SQLITE_OPEN_FILEPROTECTION_COMPLETEUNTILFIRSTUSERAUTHENTICATION,
            "none": SQLITE_OPEN_FILEPROTECTION_NONE,
        ]
        for word in words {
            let url = directory / "\(word).sqlite"
            do {
                let flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | (classes[word] ?? 0)
                let connection = try Connection(url.path, flags: flags)
                try connection.run("CREATE TABLE IF NOT EXISTS notes (text TEXT)")
                try connection.run("BEGIN")
                try connection.run("INSERT INTO notes VALUES ('note')")
                let journal = try protection(of: URL(fileURLWithPath: url.path + "-journal"))
                try connection.run("COMMIT")
                let count = try connection.run("SELECT count(*) FROM notes")
                print("\(word): \(count) \(try protection(of: url)) \(journal)")
            } catch let error as SQLiteFailure {
                print("\(word): SQLite \(error.code)")
            } catch { print("\(word): \(outcome(of: error))") }
        }
    #else
        print("built without SQLite")
    #endif
}
