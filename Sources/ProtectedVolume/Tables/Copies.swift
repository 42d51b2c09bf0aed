// The moment in which the new copy of a file takes the file's name, and the changes of names beside it.

package import BackingStore
package import HostSystem
internal import KeyFiles

/// The copies of files that a mount makes, and those that have taken their files' names. Thread-safe.
///
/// The lock of `count` is held exclusively while a copy takes its name, and shared while another name changes, also across these
/// calls to the store. The lock of `unfinished` is held while `Leftovers` removes a copy.
package final class Copies: Sendable {
    /// How many files have got a new copy.
    private let count = RWLock<UInt64>(0)
    /// The temporary names of copies that are being made.
    private let unfinished = Lock<Set<EntryName>>([])

    /// How many files have got a new copy so far.
    var number: UInt64 { count.withReadLock { $0 } }

    /// Runs the test of a name and the rename of a new copy over it, while no name changes. Else a save that renames a file over
    /// it in this moment would be lost, or a file that is removed would come back.
    func replacing<Result>(_ body: () throws(VolumeError) -> Result) throws(VolumeError) -> Result {
        try count.withWriteLock { (count) throws(VolumeError) in
            let result = try body()
            count += 1
            return result
        }
    }

    /// Runs `body`, which looks at names and changes one of them by `changing`, with the number of copies so far. Runs it again
    /// if a copy has taken one of the names in between.
    func retrying<Result>(_ body: (UInt64) throws(VolumeError) -> Result) throws(VolumeError) -> Result {
        for _ in 0..<16 {
            do throws(VolumeError) {
                return try body(number)
            } catch {
                guard error == .refused(.EAGAIN) else { throw error }
            }
        }
        throw .refused(.EBUSY)
    }

    /// Runs the call to the store that changes names. No copy takes a name meanwhile. The lock is held for this call alone.
    /// - Parameters:
    ///   - number: the number of copies before the names were looked at.
    ///   - isSame: whether they still belong to the same objects. Asked if there was a copy since.
    func changing(
        since number: UInt64, isSame: () throws(VolumeError) -> Bool, _ body: () throws(Errno) -> Void
    ) throws(VolumeError) {
        try count.withReadLock { (count) throws(VolumeError) in
            if count != number, !(try isSame()) { throw .refused(.EAGAIN) }
            do throws(Errno) { try body() } catch { throw .store(error) }
        }
    }

    /// Notes a copy that is about to be made under a temporary name. It ends by `end`.
    func begin(_ temporary: EntryName) { unfinished.withLock { _ = $0.insert(temporary) } }

    /// Notes that a copy has its file's name, or is removed.
    func end(_ temporary: EntryName) { unfinished.withLock { _ = $0.remove(temporary) } }

    /// Runs `body` unless this mount is making a copy under this name. None is begun meanwhile.
    /// - Returns: whether it ran.
    package func unlessMaking(_ name: EntryName, _ body: () throws(Errno) -> Void) throws(Errno) -> Bool {
        try unfinished.withLock { (unfinished) throws(Errno) in
            if unfinished.contains(name) { return false }
            try body()
            return true
        }
    }
}
