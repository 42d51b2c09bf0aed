// Which files a quick check looks at: those that can show damage of a crash.
//
// A departure is tolerated only if the epoch of a file's first or last page ended badly (docs/judge/volume-format.md, 6.2). So a file
// in which neither did reads the same when these epochs are closed, and need not be read. The lists of changed files say which
// files can have such a page. If they do not, the ends of every file do.

internal import BackingStore
internal import KeyFiles
internal import ProtectedVolume
internal import VolumeFormat

/// How a quick check finds the files that it must read.
package enum QuickReach: String, Sendable {
    /// No session ended with a crash.
    case nothing
    /// By the lists of changed files, and by the times of making.
    case listed
    /// By the ends of every file.
    case ends
    /// It reads everything, because crash damage is tolerated everywhere.
    case everything
}

/// The files of a quick check.
struct QuickScope: Sendable {
    let reach: QuickReach
    private var listed: Set<UInt64> = []
    /// Files that were made from then on are looked at, in nanoseconds since 1970.
    private var since = Int64.min

    /// - Parameter states: has the lists.
    init(_ epochs: EpochLog, _ states: StateFileStore?, _ directory: BackingDirectory) {
        let ended = epochs.endedBadly
        guard let states, epochs.tolerance == .byEpoch else {
            reach = .everything
            return
        }
        guard !ended.isEmpty else {
            reach = .nothing
            return
        }
        var began = Int64.max
        for epoch in ended {
            guard directory.keepsIdentity, let (list, inodes) = states.changedList(of: epoch), !list.isAll else {
                reach = .ends
                listed = []
                return
            }
            listed.formUnion(inodes)
            began = min(began, list.header.began)
        }
        since = began
        reach = .listed
    }

    /// Whether the check opens a file, to see from its ends if it must be read.
    func opens(_ status: Status) -> Bool {
        switch reach {
        case .nothing: false
        case .ends, .everything: true
        case .listed:
            listed.contains(status.inode) || status.born.map { $0.nanosecondsSince1970 >= since } ?? true
        }
    }

    /// Whether a file is read, as far as its status tells.
    func probablyReads(_ status: Status) -> Bool { reach != .ends && opens(status) }

    /// Whether a file that was opened is read only if its ends show that a crash may have damaged it.
    var readsByEnds: Bool { reach != .everything }
}
