// The copy that replaces a file which other machines may write meanwhile (`-o shared`).
//
// A change moves the change time of the backing file. So a copy is whole if that time is the same before its first
// block was read and when it takes the name, both seen under the store's lock. Other machines that have the file open
// learn of the replacement by a mark on the former inode.

package import BackingStore
internal import HostSystem
package import KeyFiles
package import VolumeFormat

/// What the store says of a file that nobody has changed since. Every later change moves `changed`.
package struct FileMoment: Sendable, Equatable {
    private let changed: Timestamp
    private let length: UInt64

    fileprivate init(_ status: Status) { (changed, length) = (status.changed, status.size) }
}

extension FileContent {
    /// How long the store's clock may take to show another time. Some stores count whole seconds.
    private static let clockPatience: UInt64 = 2_500_000_000

    /// The file as it is now; nil if no other machine writes. The caller holds the file in the store.
    ///
    /// A clock may be coarse, so this waits until the store has given another file a time after the last change.
    /// - Parameter clock: a file that nobody else uses, for the store's time.
    func moment(_ clock: BackingFile) throws(VolumeError) -> FileMoment? {
        guard context.isShared else { return nil }
        let status = try store { () throws(Errno) in try backing.status() }
        let end = monotonicNanoseconds() + Self.clockPatience
        while true {
            let now = try store { () throws(Errno) in
                try clock.setTimes(accessed: .keep, modified: .now)
                return try clock.status().changed
            }
            if now != status.changed { return FileMoment(status) }
            guard monotonicNanoseconds() < end else { throw .refused(.EBUSY) }
            sleep(microseconds: 500)
        }
    }

    /// Throws `.refused(.EBUSY)` if the file has changed since `moment`. The caller holds it in the store.
    private func requireUnchanged(since moment: FileMoment?) throws(VolumeError) {
        guard let moment else { return }
        let status = try store { () throws(Errno) in try backing.status() }
        guard FileMoment(status) == moment else { throw .refused(.EBUSY) }
    }

    /// Runs `body`, which copies `blocks`, while they do not change, and have not since `moment`.
    func holdingCopied<Result>(
        _ blocks: Range<UInt64>, since moment: FileMoment?, _ body: () throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        guard moment != nil else { return try holding(blocks, exclusive: false, body) }
        return try holdingStore(exclusive: false) { () throws(VolumeError) in
            try requireUnchanged(since: moment)
            return try body()
        }
    }

    /// Gives the file the class of its copy, which takes the name afterwards. Only the rename must be durable.
    /// - Returns: the moment after the change.
    package func changeClass(
        to target: ProtectionClass, copiedAt moment: FileMoment?, _ clock: BackingFile
    ) throws(VolumeError) -> FileMoment? {
        guard moment != nil else {
            try changeClass(to: target, explicit: false, isDurable: false)
            return nil
        }
        try requireChangeable()
        try prepareToModify(.other)
        return try holding(0..<1, exclusive: true) { () throws(VolumeError) in
            try requireUnchanged(since: moment)
            if target == protectionClass { return moment }
            try changeClassHeld(to: target, explicit: false, isDurable: false)
            return try self.moment(clock)
        }
    }

    /// Runs `rename`, which puts the copy in the place of the file, if nothing has changed since `moment`. No other
    /// machine changes the file meanwhile, and one that has it open writes to it no more.
    ///
    /// Waits for nobody, because the caller stops changes of names.
    /// - Returns: false if the file is busy now, and nothing was done.
    package func replace(
        unchangedSince moment: FileMoment?, test: () throws(VolumeError) -> Void, rename: () throws(VolumeError) -> Void
    ) throws(VolumeError) -> Bool {
        guard moment != nil else {
            try test()
            try rename()
            return true
        }
        guard let hold = ranges.acquireUnlessBusy(RangeLock.everything, exclusive: true, limit: 0) else {
            return false
        }
        do throws(VolumeError) {
            let isDone = try context.lockAtOnce(backing, exclusive: true)
            if isDone {
                defer { context.unlock(backing) }
                try requireUnchanged(since: moment)
                try test()
                try mark(replacedBy: rename)
            }
            ranges.release(hold)
            return isDone
        } catch {
            ranges.release(hold)
            throw error
        }
    }

    private func mark(replacedBy rename: () throws(VolumeError) -> Void) throws(VolumeError) {
        try store { () throws(Errno) in try backing.setAttribute(Self.replacedMark, []) }
        do throws(VolumeError) { try rename() } catch {
            try? backing.removeAttribute(Self.replacedMark)
            throw error
        }
    }
}
