// The times of one file: what programs were shown while the kernel writes pages back, and when they have read.

internal import BackingStore
internal import HostSystem
internal import KeyFiles
internal import Synchronization

/// Keeps the modification time of a backing file through writes that no program requested, and moves its access time.
/// Thread-safe.
struct ContentTimes: ~Copyable, Sendable {
    /// How long the access time counts as new enough without another look at it, in nanoseconds.
    private static let accessPatience: UInt64 = 60_000_000_000
    /// The value of `accessLook` if the next read moves the time without a look.
    private static let isDue: UInt64 = 1

    private let options: VolumeOptions
    private let backing: BackingFile
    private let kept: InPlaceLock<KeptTime>
    /// Held while the backing file's modification time is set and noted, so that no old time overtakes a new one.
    private let setting = InPlaceLock(())
    /// When the access time was last found new enough (CLOCK_MONOTONIC); 0 after a change.
    private let accessLook = Atomic<UInt64>(0)

    /// - Parameter made: the time of a file that was just made. The kernel gets it with the file.
    init(_ options: VolumeOptions, _ backing: BackingFile, made: Timestamp? = nil) {
        self.options = options
        self.backing = backing
        var time = KeptTime()
        if let made { time.made(made) }
        kept = InPlaceLock(time)
    }

    // MARK: the modification time

    /// The time that a program or the kernel set last, if it is still the file's.
    var time: Timestamp? { kept.withLock { $0.time } }

    /// Whether the backing file's time is known to have no mark.
    var isUnmarked: Bool { !options.isShared && kept.withLock { $0.isUnmarked } }

    /// Whether the daemon has marked the backing file's time since this was asked last.
    func takeMark() -> Bool { kept.withLock { $0.takeMark() } }

    /// Runs `body`, which sets the backing file's modification time and returns its status then. Remembers the time, so that
    /// a late write from the page cache cannot undo it.
    func settingTime(_ body: () throws(VolumeError) -> Status) throws(VolumeError) -> Status {
        try setting.withLock { (_) throws(VolumeError) in
            let status = try body()
            pin(status.modified)
            return status
        }
    }

    /// Remembers the modification time, which the backing file has.
    func pin(_ time: Timestamp) { kept.withLock { $0.set(time) } }

    /// A program has changed the file, and with it the times.
    func moved() {
        forgetAccessLook()
        kept.withLock { $0.moved() }
    }

    /// Keeps the time from before the first write from the page cache, because the kernel shows that time. If other machines write,
    /// the kernel keeps no time.
    func keep() {
        guard !options.isShared, kept.withLock({ !$0.isKnown }), let status = try? backing.status() else { return }
        kept.withLock { $0.assume(status.modified) }
    }

    /// A write from the page cache has changed the backing file's time.
    func wroteBack() {
        forgetAccessLook()
        kept.withLock { $0.wroteBack() }
    }

    /// Makes backups see that the file has changed since `former`, and shows `time` to programs.
    func renew(showing time: Timestamp, after former: Timestamp) throws(Errno) {
        try backing.renewTime(showing: time, after: former)
        kept.withLock { $0.marked() }
    }

    /// Restores a time that a late write has changed.
    /// - Returns: the backing file's time, if it was restored as it is.
    func putBack() -> Timestamp? {
        setting.withLock { _ in
            let now = kept.withLock { $0 }
            guard let time = now.toPutBack else { return nil }
            defer { kept.withLock { $0.putBack(time) } }
            if now.mayBeKnown, let status = try? backing.status() {
                try? renew(showing: time, after: status.stored)
                return nil
            }
            do throws(Errno) {
                try backing.setTimes(accessed: .keep, modified: .set(time), isUnmarked: isUnmarked)
            } catch { return nil }
            return isUnmarked && time.nanoseconds != StoredTime.mark ? time : nil
        }
    }

    /// Runs `body`, and puts back the modification time, and set-ID bits that a write without privileges takes away (write(2)): for
    /// writes that no program requested.
    /// - Parameters:
    ///   - time: the time, if it is known. The set-ID bits are not put back then.
    ///   - isNews: whether a backup of the file from before is worth less afterwards, so that backups must see the write.
    /// - Returns: whether programs are shown the time again.
    @discardableResult
    func preserving(
        _ time: Timestamp? = nil, isNews: Bool = false, _ body: () throws(VolumeError) -> Void
    ) throws(VolumeError) -> Bool {
        let status = time == nil ? try? backing.status() : nil
        var hasFailed = false
        func putBackTime() throws(Errno) {
            if let time {
                return try backing.setTimes(accessed: .keep, modified: .set(time), isUnmarked: isUnmarked)
            }
            guard let status else { throw .EIO }
            guard isNews else { return try backing.putBackTime(status) }
            // What was refused has written nothing.
            if hasFailed, let now = try? backing.status(), now.stored == status.stored, now.changed == status.changed {
                return
            }
            try renew(showing: status.modified, after: status.stored)
        }
        func putBack() -> Bool {
            if let mode = status?.mode, mode & 0o6000 != 0, !Credentials.isRoot { restoreSetID(mode) }
            do throws(Errno) { try putBackTime() } catch { return false }
            return true
        }
        do throws(VolumeError) {
            try body()
        } catch {
            hasFailed = true
            _ = putBack()
            throw error
        }
        return putBack()
    }

    /// Gives the file the set-ID bits of `mode` again, unless its permissions were changed meanwhile.
    private func restoreSetID(_ mode: UInt32) {
        guard let now = try? backing.status().mode, now & 0o777 == mode & 0o777, now & 0o6000 != mode & 0o6000 else {
            return
        }
        try? backing.setMode(now & 0o7777 | mode & 0o6000)
    }

    // MARK: the access time

    /// Called when the file was opened, with its status then: it spares the first look.
    func noteAccessTime(_ status: Status) {
        guard case .relative = options.accessTimes else { return }
        let isDue = status.accessTimeIsDue(at: WallClock.seconds)
        accessLook.store(isDue ? Self.isDue : monotonicNanoseconds(), ordering: .relaxed)
    }

    /// Called after a program has read. Moves the access time if the mount's options say so. Under `relatime` the store is not
    /// touched, and not asked, again until the file changes or a minute has passed.
    /// - Returns: whether the time may have moved.
    func noteAccess() -> Bool {
        guard !options.isReadOnly else { return false }
        switch options.accessTimes {
        case .never: return false
        case .always: break
        case .relative:
            let now = monotonicNanoseconds()
            let last = accessLook.load(ordering: .relaxed)
            guard last <= Self.isDue || nanoseconds(from: last, to: now) > Self.accessPatience else { return false }
            accessLook.store(now, ordering: .relaxed)
            guard last != Self.isDue else { break }
            guard let status = try? backing.status(), status.accessTimeIsDue(at: WallClock.seconds) else {
                return false
            }
        }
        backing.touchAccessTime()
        return true
    }

    /// The next read moves the access time.
    func forgetAccessLook() { accessLook.store(0, ordering: .relaxed) }
}
