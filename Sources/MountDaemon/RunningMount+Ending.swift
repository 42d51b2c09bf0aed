// How a mount ends: by a command, by a signal, or because someone else detached it.

import CLibrary
import CommandSupport
import FuseFrontend
package import HostSystem
import Keybag
import ProtectedVolume
import VolumeAccess
import VolumeFormat

extension RunningMount {
    /// Unmounts. Fails if the mount is in use, unless it is forced. If the file system is mounted elsewhere too, it ends there
    /// after a grace, or at once if forced.
    func unmount(isForced: Bool = false, by user: UInt32? = nil) throws(CommandFailure) {
        try leaveMountPoint(isForced: isForced, by: user)
        beginEndingElsewhere(isForced: isForced)
    }

    private func leaveMountPoint(isForced: Bool, by user: UInt32?) throws(CommandFailure) {
        // Before the mount ends, because its end reads it.
        ending.askedBy = user
        // A mount that is not the last one is removed without a write-back.
        if !isForced, !UseElsewhere(entry).isEmpty {
            try? Descriptor(opening: point.path, O_RDONLY | O_DIRECTORY).syncFileSystem()
        }
        do throws(CommandFailure) {
            try removeMount()
        } catch {
            guard isForced, error.code == .busy, (try? place()) == .own else {
                ending.askedBy = nil
                throw error
            }
            Self.detach(point.path)
        }
    }

    /// What is at the mount point.
    private enum Place {
        case own
        /// The mount, and another one over it. The system would unmount that one.
        case covered
        /// Not the mount: someone else has unmounted it.
        case gone
    }

    private func place() throws(CommandFailure) -> Place {
        let table: [MountEntry]
        do throws(SystemError) { table = try MountTable.read() } catch {
            throw .init(.failure, "the table of mounts cannot be read: \(error.reason)")
        }
        let here = table.filter { $0.mountPoint == point.path }
        if here.last?.device == entry.device { return .own }
        return here.contains { $0.device == entry.device } ? .covered : .gone
    }

    private func removeMount() throws(CommandFailure) {
        var refusal: UnmountRefusal?
        // A file just closed, or the daemon's own helper, may hold the mount for a moment.
        for _ in 0..<20 {
            frontend.settle()
            switch try place() {
            case .own: refusal = Self.tryUnmount(point.path)
            case .covered:
                throw .init(
                    .busy,
                    "\(point.path): something else is mounted over it; unmount that first (umount \(point.path.word)), or only lock the volume: protectfs lock \(point.path.word)"
                )
            case .gone: return
            }
            guard let refusal else { return }
            guard refusal.isBusy else { break }
            usleep(25_000)
        }
        guard try place() != .gone, let refusal else { return }
        throw refusal.isBusy
            ? Self.inUse(point.path)
            : .init(.failure, "\(point.path): cannot unmount: \(refusal.reason)")
    }

    /// Nil if it was unmounted.
    private static func tryUnmount(_ path: HostPath) -> UnmountRefusal? {
        if Credentials.isRoot {
            let result = unsafe path.withCString { unsafe umount2($0, Int32(UMOUNT_NOFOLLOW)) }
            return result == 0 ? nil : UnmountRefusal(errno)
        }
        do throws(SystemError) { return try FuserMount.unmount(path, isLazy: false) } catch {
            return UnmountRefusal(error.code)
        }
    }

    private static func inUse(_ path: HostPath) -> CommandFailure {
        .init(
            .busy,
            "\(path): in use; close the open files (fuser -vm \(path.word) lists them), or only lock the volume: protectfs lock \(path.word)"
        )
    }

    /// The error of an unlock while the mount is ending.
    static func isEnding(_ path: HostPath) -> CommandFailure {
        .init(
            .busy,
            "\(path): the mount has been told to end and stays locked; close the open files (fuser -vm \(path.word) lists them), then mount again"
        )
    }

    /// Ends after SIGTERM: locks at once even if files are open, takes no more keys, and unmounts as soon as the mount is not
    /// in use. Until then it stays mounted and locked, and answers its socket. No command could reach a detached mount.
    ///
    /// - Parameter pause: waits this many seconds, or until the next signal.
    func end(pause: (Int) -> Void) {
        lockForGood(.signal)
        var attempts = 0
        while let attempt = ending.whileServing({ tryToEnd(attempts) }), attempt != .gone {
            // Not under the lock: without a thread to spare it waits for the end here, which takes the lock to write.
            if attempt == .unmounted { return beginEndingElsewhere(isForced: false) }
            if attempts == 0 {
                log.write(
                    "the mount is in use: it stays mounted and locked until nothing uses it, and is then unmounted",
                    .warning)
            }
            // Programs that are told to end at the same time need a moment; others may need hours.
            pause(attempts < 30 ? 1 : 10)
            attempts += 1
        }
    }

    private enum Attempt {
        case unmounted
        /// Nothing is left to do.
        case gone
        case inUse
    }

    /// Unmounts if the mount is not in use.
    private func tryToEnd(_ attempts: Int) -> Attempt {
        // By now another mount may have its path.
        guard let place = try? place(), place != .covered else { return .inUse }
        if place == .gone { return .gone }
        guard attempts > 0 else { return (try? leaveMountPoint(isForced: false, by: nil)) != nil ? .unmounted : .inUse }
        frontend.settle()
        return Self.tryUnmount(point.path) == nil ? .unmounted : .inUse
    }

    /// The mount point is free. The session ends by itself, unless the file system is still mounted elsewhere or open.
    private func beginEndingElsewhere(isForced: Bool) {
        let thread = BackgroundThread(name: "pfs-ending") { [self] in endElsewhere(isForced: isForced) }
        if thread == nil { endElsewhere(isForced: isForced) }
    }

    /// Locks at once if the session does not end by itself, and ends the connection after the grace. What was synced is in the
    /// store; what was only written is written back first, as far as the store takes it in time.
    private func endElsewhere(isForced: Bool) {
        guard !hasEnded(within: isForced ? 0 : 1) else { return }
        let place = UseElsewhere(entry).words
        let time = isForced ? "now" : "in \(UseElsewhere.grace) s"
        log.write("unmounted, but still mounted or open \(place): locking; it ends there \(time)", .warning)
        lockForGood(.unmount)
        guard isForced || !hasEnded(within: UseElsewhere.grace) else { return }
        ending.whileServing {
            frontend.writeBack(seconds: isForced ? 5 : 60)
            if !ending.abort() { frontend.leave() }
        }
    }

    /// Whether the session ends within some seconds.
    private func hasEnded(within seconds: Int32) -> Bool {
        let deadline = monotonicNanoseconds() + UInt64(seconds) * 1_000_000_000
        while ending.isServing {
            if monotonicNanoseconds() >= deadline { return false }
            usleep(20_000)
        }
        return true
    }

    /// Locks without grace, and stays locked until the end.
    private func lockForGood(_ reason: Record.Reason) {
        ending.tell()
        throttle.close()
        ending.whileServing { lock(reason, grace: 0) }
    }

    /// Takes in the keys of a credential. Nil if the mount has been told to end meanwhile.
    func takeIn(_ keys: consuming VolumeKeys, when condition: UnlockCondition) throws(KeyError) -> UnlockOutcome? {
        var given: VolumeKeys? = consume keys
        // Under the lock, `lockForGood` comes either before this call, which then refuses, or after it, and locks.
        return try ending.unlessTold { () throws(KeyError) in
            guard let keys = given.take() else { preconditionFailure("the keys were given once") }
            if volume.keys.state != .unlocked, condition != .ifUnlocked { announceUnlock() }
            return try frontend.unlock(with: keys, when: condition)
        }
    }

    /// Locks a mount that someone detaches while it is in use (umount -l), because commands cannot find it any more. Needs its
    /// own thread.
    func watchMountTable() {
        guard let watch = try? MountTableWatch() else {
            log.write("the mount table cannot be watched: a mount that is detached in use will not lock", .warning)
            return
        }
        while watch.wait() {
            // Looks once for all changes of a second. A mount that was unmounted has ended by then.
            sleep(1)
            guard ending.isServing else { return }
            guard let table = try? MountTable.read(), !table.contains(where: { $0.device == entry.device }) else {
                continue
            }
            log.write("the mount was detached while in use: locking; it ends when nothing uses it any more", .warning)
            lockForGood(.detached)
            return
        }
    }

    /// Detaches the mount even if it is in use.
    package static func detach(_ path: HostPath) {
        if Credentials.isRoot {
            _ = unsafe path.withCString { unsafe umount2($0, Int32(MNT_DETACH | UMOUNT_NOFOLLOW)) }
        } else {
            _ = try? FuserMount.unmount(path, isLazy: true)
        }
    }
}

/// Why a mount was not unmounted.
struct UnmountRefusal {
    /// Whether something uses the mount.
    let isBusy: Bool
    /// The reason, for a person.
    let reason: String

    init(_ code: Int32) {
        isBusy = code == EBUSY
        reason = SystemError.reason(of: code)
    }

    /// - Parameter said: what fusermount3 has written to standard error.
    fileprivate init(said: [UInt8]) {
        let lines = said.split(separator: UInt8(ascii: "\n")).map { String(decoding: $0, as: UTF8.self) }
        reason = lines.last ?? "fusermount3 has failed and gives no reason"
        // The text of EBUSY. fusermount3 does not translate it. The system's loader may say something before.
        isBusy = lines.contains { $0.hasSuffix("esource busy") }
    }
}

/// fusermount3(1), which may unmount for an ordinary user.
enum FuserMount {
    /// The most bytes that are read of what it says.
    private static let longestText = 4096

    /// Nil when it succeeded.
    static func unmount(_ path: HostPath, isLazy: Bool) throws(SystemError) -> UnmountRefusal? {
        let null = try Descriptor(opening: HostPath("/dev/null"), O_RDWR)
        var pipe = try Pipe()
        guard let writing = pipe.writing.take(), let reading = pipe.reading.take() else {
            preconditionFailure("a new pipe has two ends")
        }
        // With -q it would give no reason.
        var words = ["fusermount3", "-u"].map { Array($0.utf8) }
        if isLazy { words.append(Array("-z".utf8)) }
        words.append(Array("--".utf8))
        words.append(path.bytes)
        let child = try ChildProcess.start(
            HostPath("fusermount3"), words, descriptors: [(0, null.number), (1, null.number), (2, writing.number)])
        _ = consume writing
        let said = try? reading.readAll(limit: longestText)
        return try child.wait() == .exited(0) ? nil : UnmountRefusal(said: said ?? [])
    }
}
