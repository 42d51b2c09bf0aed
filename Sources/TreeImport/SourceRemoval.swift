// The end of an import that moves: what is in the volume is removed from the source.

package import BackingStore
package import CommandSupport
import HostSystem

/// Removes the objects of a source that are in the volume for sure.
package struct SourceRemoval {
    /// What was found equal, with the time of its last change then.
    private var compared: [ImportWalk.Identity: Timestamp]
    private let report: ImportReport

    /// The removal of what a walk has compared, if it was told to remember that.
    package init(after walk: ImportWalk, _ report: ImportReport) {
        (compared, self.report) = (walk.compared ?? [:], report)
    }

    /// Removes what has not changed since it was compared, with the directories that are empty then. `source` itself stays. The rest
    /// is reported as kept.
    package mutating func run(_ source: HostDirectory, _ interruption: Interruption) {
        var way = Descent(from: source)
        var path: [EntryName] = []
        // The directories of each level that were not visited.
        var waiting = [removeFiles(in: source, path)]
        while var level = waiting.popLast(), !interruption.isAsked {
            guard let next = level.popLast() else {
                way.leave()
                guard let name = path.last else { continue }
                attempt(path) { () throws(Errno) in try way.directory().removeDirectory(name) }
                path.removeLast()
                continue
            }
            waiting.append(level)
            path.append(next.name)
            var below: BackingDirectory?
            attempt(path) { () throws(Errno) in
                try way.enter(next)
                below = try way.directory()
            }
            if let below { waiting.append(removeFiles(in: below, path)) } else { path.removeLast() }
        }
    }

    /// - Returns: the directories in it.
    private mutating func removeFiles(in directory: BackingDirectory, _ path: [EntryName]) -> [DirectoryEntry] {
        var (entries, below): ([DirectoryEntry], [DirectoryEntry]) = ([], [])
        attempt(path) { () throws(Errno) in entries = try directory.entries() }
        for entry in entries {
            attempt(path + [entry.name]) { () throws(Errno) in
                let object = try directory.node(entry.name)
                let status = try object.status()
                if status.kind == .directory { return below.append(entry) }
                guard compared[.init(status)] == status.changed else {
                    return report.keep(path + [entry.name], "was not there, or different, when everything was compared")
                }
                try directory.unlink(entry.name)
                report.removed = (report.removed ?? 0) + 1
                // The removal of one of several names is a change.
                if status.links > 1 { compared[.init(status)] = try object.status().changed }
            }
        }
        return below
    }

    private func attempt(_ path: [EntryName], _ body: () throws(Errno) -> Void) {
        do throws(Errno) { try body() } catch { report.keep(path, SystemError.reason(of: error.rawValue)) }
    }
}
