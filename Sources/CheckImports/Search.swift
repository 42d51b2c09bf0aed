// Finds Swift files and prints their problems.

import CLibrary
import HostSystem
import ImportCheck

struct Search {
    private(set) var (files, excepted, found, unread) = (0, 0, 0, 0)
    /// Directories that have been searched. A link may lead back to one.
    private var visited: Set<[UInt64]> = []

    /// Checks a file or searches a directory. In a directory it checks only files whose names end with `.swift`.
    mutating func visit(_ path: HostPath, named: Bool) {
        do throws(SystemError) {
            try look(path, named: named)
        } catch {
            // A dangling link is skipped.
            if !named, error.code == ENOENT { return }
            Self.complain("\(path): \(error.reason)")
            unread += 1
        }
    }

    private mutating func look(_ path: HostPath, named: Bool) throws(SystemError) {
        var status = stat()
        guard unsafe path.withCString({ unsafe stat($0, &status) }) == 0 else { throw .last("stat", path.description) }
        if status.st_mode & S_IFMT == S_IFDIR {
            guard visited.insert([UInt64(status.st_dev), UInt64(status.st_ino)]).inserted else { return }
            for name in try FileStatus.names(in: path) where name.bytes.first != UInt8(ascii: ".") {
                visit(path == HostPath(".") ? name : path.appending(bytes: name.bytes), named: false)
            }
        } else if named || (path.bytes.suffix(6).elementsEqual(".swift".utf8) && status.st_mode & S_IFMT == S_IFREG) {
            let check = ImportCheck(try readFile(path, limit: 1 << 28))
            files += 1
            if check.isExcepted { excepted += 1 }
            found += check.findings.count
            for finding in check.findings { print("\(path):\(finding.line): \(finding)") }
        }
    }

    static func complain(_ text: String) {
        let line = "check-imports: \(text)\n"
        unsafe write(STDERR_FILENO, line, line.utf8.count)
    }
}
