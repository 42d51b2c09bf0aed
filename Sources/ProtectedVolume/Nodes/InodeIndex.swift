// The directories of all inodes of a volume, to find the object of a file handle that the kernel has forgotten.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

/// Where each inode of the store has a name: 16 bytes for each name. A moment's picture, so whatever it says is tested.
struct InodeIndex: Sendable {
    private struct Name {
        var inode: UInt64
        var directory: UInt64
    }

    /// Sorted by inode.
    private var names: [Name] = []
    private let root: UInt64
    /// `HandleIndex.givenNames` before the tree was listed.
    let givenNames: UInt64
    /// When that was (`monotonicNanoseconds`).
    private let made = monotonicNanoseconds()
    /// How long an index counts for names that another program may have made.
    private static let lifetime: UInt64 = 10_000_000_000
    /// Whether no directory was left out that may have names.
    private(set) var isComplete = true

    /// Lists the whole tree below `directory`. A directory that cannot be listed is left out.
    init(of directory: BackingDirectory, inode: UInt64, givenNames: UInt64) {
        (root, self.givenNames) = (inode, givenNames)
        collect(directory, inode)
        names.sort { $0.inode < $1.inode }
    }

    private mutating func collect(_ top: BackingDirectory, _ inode: UInt64) {
        var way = Descent(from: top)
        // The directories of each level that are not listed yet.
        var waiting = [list(top, inode)]
        while var level = waiting.popLast() {
            guard let next = level.popLast() else {
                way.leave()
                continue
            }
            waiting.append(level)
            do throws(Errno) {
                try way.enter(next)
                waiting.append(list(try way.directory(), next.inode))
            } catch {
                note(error)
            }
        }
    }

    /// Takes the names of one directory.
    /// - Returns: those that may be directories.
    private mutating func list(_ directory: BackingDirectory, _ inode: UInt64) -> [DirectoryEntry] {
        var below: [DirectoryEntry] = []
        do throws(Errno) {
            try directory.forEachEntry { entry in
                guard !ReservedName.kind(of: entry.name.bytes.span).isHidden else { return true }
                names.append(Name(inode: entry.inode, directory: inode))
                if entry.kind == .directory || entry.kind == .unknown { below.append(entry) }
                return true
            }
        } catch {
            note(error)
        }
        return below
    }

    /// Whether it was made a short time ago.
    var isNew: Bool { nanoseconds(from: made, to: monotonicNanoseconds()) < Self.lifetime }

    private mutating func note(_ error: Errno) {
        switch error {
        // It has gone, or is none.
        case .ENOENT, .ENOTDIR, .ELOOP: break
        default: isComplete = false
        }
    }

    /// The directories that have a name for an inode.
    private func directories(of inode: UInt64) -> [UInt64] {
        var (low, high) = (0, names.count)
        while low < high {
            let middle = (low + high) / 2
            if names[middle].inode < inode { low = middle + 1 } else { high = middle }
        }
        return names[low...].prefix { $0.inode == inode }.map(\.directory)
    }

    /// The inodes from the root (not included) down to `inode`, once for each directory that has it.
    func paths(to inode: UInt64) -> [[UInt64]] {
        directories(of: inode).compactMap { directory in
            var path = [inode]
            var current = directory
            while current != root {
                guard path.count <= names.count, let above = directories(of: current).first else { return nil }
                path.append(current)
                current = above
            }
            return path.reversed()
        }
    }
}
