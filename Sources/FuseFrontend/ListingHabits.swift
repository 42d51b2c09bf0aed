// What the threads that list directories do with the entries: some want only names, others look at each file.

internal import FuseBridge
internal import HostSystem
internal import ProtectedVolume

/// Decides for each READDIRPLUS whether files come with attributes.
///
/// With attributes, an entry costs several times as much as its name. A file that has none costs a LOOKUP if it is wanted.
/// Nobody says beforehand what a program wants. So of the first directory of a thread, the first page has them. A later
/// directory goes without, as a probe. If a file of a page without is looked up, the next pages and directories have
/// attributes, until the next probe, which comes after four times as many directories. Else they go without.
/// On a first page, attributes of directories and symbolic links are always given, because what walks a tree wants those.
final class ListingHabits: Sendable {
    /// Threads whose habits are remembered. Those with the same remainder share one place, and the last one has it.
    private static let places = 32
    /// The most directories with attributes between two probes.
    private static let longestInterval: UInt32 = 256

    private struct Habit {
        var thread: Int32 = -1
        /// Whether its listings have attributes.
        var isGiven = true
        /// Whether a file that came without attributes has been looked up. Until then only first pages have them.
        var isProven = false
        /// Directories until the next probe, if they are given.
        var untilProbe: UInt32 = 1
        /// The number of directories from a failed probe to the next probe.
        var interval: UInt32 = 1
        /// The directory of the last page whose files came without attributes; 0 after a failed probe.
        var bareDirectory: NodeID = 0
    }
    private let habits = InPlaceLock([Habit](repeating: Habit(), count: places))

    /// A thread lists a directory from its start on (`isStart`), or goes on. Returns what should be given with the names.
    func attributes(for thread: Int32, of directory: NodeID, isStart: Bool) -> ListedAttributes {
        habits.withLock { habits in
            let place = Self.place(of: thread)
            if habits[place].thread != thread {
                habits[place] = Habit()
                habits[place].thread = thread
            }
            if habits[place].isGiven, !isStart, habits[place].isProven { return .all }
            if habits[place].isGiven, isStart {
                if habits[place].untilProbe > 0 {
                    habits[place].untilProbe -= 1
                    return .all
                }
                habits[place].isGiven = false
            }
            habits[place].bareDirectory = directory
            return isStart ? .ofDirectoriesAndLinks : .none
        }
    }

    /// An object has been looked up, of a kind whose attributes are not always given. Whoever asks, the thread that has listed
    /// the directory learns from it, because many programs list in one thread and look in others.
    func lookedUp(in directory: NodeID) {
        habits.withLock { habits in
            for place in habits.indices where habits[place].bareDirectory == directory {
                habits[place].bareDirectory = 0
                habits[place].isGiven = true
                habits[place].isProven = true
                habits[place].interval = min(habits[place].interval * 4, Self.longestInterval)
                habits[place].untilProbe = habits[place].interval
            }
        }
    }

    private static func place(of thread: Int32) -> Int { Int(UInt32(bitPattern: thread) % UInt32(places)) }
}
