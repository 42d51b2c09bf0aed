// Lists files as changed ahead of time, so that a program that changes many of them does not wait for each.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles

/// Where the next changes are expected.
struct ExpectedChanges {
    /// Whose files are listed ahead.
    enum Reach {
        /// The directory's.
        case directory
        /// Those of the directories beside it, too.
        case beside
    }

    /// The files of one directory that are listed one by one, at first.
    private static let fewFiles = 4
    /// After so many waits every file's directory is listed at once.
    private static let someWaits = 16
    /// After so many waits, the directories beside it, too.
    private static let manyWaits = 48
    /// The number of directories beside one that are read.
    static let mostBeside = 512
    /// The number of directories that are counted.
    private static let mostDirectories = 4096

    /// The files that were opened and not listed, by the directory's number.
    private var opened: [UInt64: Int] = [:]
    /// The directories whose directories were listed.
    private var widened: Set<UInt64> = []

    /// Notes that an existing file was opened for writing. Gives the files to list, once.
    mutating func note(directory: UInt64, above: UInt64?, waits: Int) -> Reach? {
        if let above, waits >= Self.manyWaits, widened.count < Self.mostDirectories, widened.insert(above).inserted {
            return .beside
        }
        if opened.count >= Self.mostDirectories { opened.removeAll() }
        let count = opened[directory, default: 0] + 1
        let wanted = waits < Self.someWaits ? Self.fewFiles : 1
        opened[directory] = count < wanted ? count : .min / 2
        return count < wanted ? nil : count > 0 ? .directory : nil
    }
}

extension Volume {
    /// Notes that an existing file was opened for writing. If programs wait for the list again and again, the files that will
    /// probably follow are listed together with the next one. A check then looks at their ends, and reads only those that were
    /// changed.
    func expectChanges(of content: FileContent, _ node: Node) {
        guard !content.isListed, let parent = node.state.withLock({ $0.place?.parent }) else { return }
        let changed = self.content.epochs.changed
        let (room, waits) = (changed.room, changed.waits)
        guard room > 0 else { return }
        let above = parent.state.withLock { $0.place?.parent }
        let reach = changesExpected.withLock {
            $0.note(directory: parent.number, above: above?.number, waits: waits)
        }
        guard let reach, let directory = try? directory(parent) else { return }
        var inodes: [UInt64] = []
        Self.collect(directory, room, into: &inodes)
        if reach == .beside, let above, let directory = try? self.directory(above) {
            var left = ExpectedChanges.mostBeside
            try? directory.forEachEntry { entry in
                if entry.kind == .directory, let beside = try? directory.openDirectory(entry.name) {
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
