// Lists files as changed ahead of time, so that a program that changes many of them does not wait for each.

internal import BackingStore
internal import HostSystem
internal import KeyFiles

/// Where the next changes are expected. If programs wait for the list of changed files again and again, the files that will
/// probably follow are listed together with the next one. A check then looks at their ends, and reads only those that were
/// changed.
///
/// Thread-safe: its lock guards the counts, and is held for a look only.
final class ExpectedChanges: Sendable {
    /// Whose files are listed ahead.
    enum Reach {
        /// The directory's.
        case directory
        /// Those of the directories beside it, too.
        case beside
    }

    private struct Counts {
        /// The files that were opened and not listed, by the directory's number.
        var opened: [UInt64: Int] = [:]
        /// The directories whose directories were listed.
        var widened: Set<UInt64> = []
    }

    /// The files of one directory that are listed one by one, at first.
    private static let fewFiles = 4
    /// After so many waits every file's directory is listed at once.
    private static let someWaits = 16
    /// After so many waits, the directories beside it, too.
    private static let manyWaits = 48
    /// The number of directories beside one that are read.
    private static let mostBeside = 512
    /// The number of directories that are counted.
    private static let mostDirectories = 4096

    private let counts = Lock(Counts())
    private let changed: ChangedFiles

    /// - Parameter changed: the list of the mount.
    init(of changed: ChangedFiles) { self.changed = changed }

    /// Notes that an existing file was opened for writing. Says whose files to list, once.
    func note(directory: UInt64, above: UInt64?) -> Reach? {
        guard changed.room > 0 else { return nil }
        let waits = changed.waits
        return counts.withLock { counts in
            if let above, waits >= Self.manyWaits, counts.widened.count < Self.mostDirectories,
                counts.widened.insert(above).inserted
            {
                return .beside
            }
            if counts.opened.count >= Self.mostDirectories { counts.opened.removeAll() }
            let count = counts.opened[directory, default: 0] + 1
            let wanted = waits < Self.someWaits ? Self.fewFiles : 1
            counts.opened[directory] = count < wanted ? count : .min / 2
            return count < wanted ? nil : count > 0 ? .directory : nil
        }
    }

    /// Lists the files of a directory, and those of the directories in `above`, if it is given.
    func list(_ directory: BackingDirectory, besideIn above: @autoclosure () -> BackingDirectory?) {
        let room = changed.room
        var inodes: [UInt64] = []
        Self.collect(directory, room, into: &inodes)
        if let above = above() {
            var left = Self.mostBeside
            try? above.forEachEntry { entry in
                if entry.kind == .directory, let beside = try? above.openDirectory(entry.name) {
                    Self.collect(beside, room, into: &inodes)
                    left -= 1
                }
                return inodes.count < room && left > 0
            }
        }
        changed.expect(inodes)
    }

    /// Collects the files of a directory, up to `room` of all.
    private static func collect(_ directory: BackingDirectory, _ room: Int, into inodes: inout [UInt64]) {
        try? directory.forEachEntry { entry in
            if entry.kind == .regular { inodes.append(entry.inode) }
            return inodes.count < room
        }
    }
}
