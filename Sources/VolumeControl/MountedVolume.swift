// A mounted volume, for programs that show its state, lock it and unlock it.

package import Control
package import HostSystem
internal import Keybag

/// A protectfs volume that is mounted.
///
/// It names a mount and holds no connection. Each call connects to the daemon of the mount anew, and any thread may make it. A
/// call waits for the daemon, so a program with a window makes it outside the thread of the window.
///
/// ```swift
/// import VolumeControl
///
/// let volume = try MountedVolume(containing: "/srv/documents")
/// if try volume.status().state != .unlocked {
///     try volume.unlock(GuardedSecret(readingLineFrom: 0))
/// }
/// ```
public struct MountedVolume: Sendable, Hashable {
    let entry: MountEntry

    /// A mount in the kernel's table.
    package init(_ entry: MountEntry) { self.entry = entry }

    /// Why a volume is locked. The record of locks in the journal says it.
    public enum LockReason: Sendable {
        /// A person, or a program for a reason of its own.
        case program
        /// The machine is about to sleep.
        case sleep
        /// Something has happened to the session: its screen was locked, or it has ended.
        case session
    }

    /// The absolute path of the mount point. Bytes that are not UTF-8 are U+FFFD in it.
    public var mountPoint: String { entry.mountPoint.description }

    /// The absolute path of the volume's directory (the store), as mounted. Bytes that are not UTF-8 are U+FFFD in it.
    public var store: String { entry.source.description }

    /// The mounts of this user that this process can see, in the order of the kernel's table.
    ///
    /// - Throws: `VolumeControlError.failed` if the table cannot be read.
    public static func all() throws(VolumeControlError) -> [MountedVolume] {
        try table().filter { $0.owner == SystemPaths.user }.map { MountedVolume($0) }
    }

    /// The mount that contains a path, which must exist. Symbolic links are followed.
    ///
    /// - Throws: `VolumeControlError.notMounted` if the path is outside every protectfs mount.
    public init(containing path: String) throws(VolumeControlError) {
        guard let whole = try? HostPath(path).resolved(), let entry = try? MountTable.entry(containing: whole),
            entry.isProtectfs
        else { throw .notMounted(path) }
        self.entry = entry
    }

    /// The mount at exactly this path. The mount is not touched, so its daemon may be dead or hang.
    ///
    /// - Throws: `VolumeControlError.notMounted` if no protectfs volume is mounted there.
    public init(at mountPoint: String) throws(VolumeControlError) {
        guard let path = try? HostPath(mountPoint).absolute().simplified else { throw .notMounted(mountPoint) }
        let parent = (try? path.parent.resolved()) ?? path.parent
        let known = [path, parent.appending(bytes: path.lastComponent.bytes)]
        guard let entry = try Self.table().last(where: { known.contains($0.mountPoint) }) else {
            throw .notMounted(mountPoint)
        }
        self.entry = entry
    }

    private static func table() throws(VolumeControlError) -> [MountEntry] {
        do throws(SystemError) { return try MountTable.read().filter(\.isProtectfs) } catch {
            throw .failed("\(error)")
        }
    }

    /// The state, and what a window would show beside it.
    public func status() throws(VolumeControlError) -> VolumeStatus {
        VolumeStatus(try call { client throws(ControlError) in try client.status() })
    }

    /// Locks the volume. Returns when the keys are gone.
    ///
    /// - Parameters:
    ///   - grace: how long programs may take that asked to be waited for, in seconds; nil for the usual time. The
    ///     configuration of the mount may shorten it.
    ///   - reason: why.
    public func lock(grace: Double? = nil, reason: LockReason = .program) throws(VolumeControlError) -> VolumeLock {
        switch reason {
        case .program: try lock(LockRequest(grace: grace))
        case .sleep: try lock(LockRequest(grace: grace, reason: .sleep))
        case .session: try lock(LockRequest(grace: grace, reason: .agent))
        }
    }

    /// Locks the volume as a request of the control socket says.
    package func lock(_ request: LockRequest) throws(VolumeControlError) -> VolumeLock {
        VolumeLock(try call { client throws(ControlError) in try client.lock(request) })
    }

    /// Unlocks the volume. After a wrong secret, the daemon answers the next attempt only when 1, 2, 4 … 30 seconds are
    /// over (`VolumeStatus.retryAfter`).
    ///
    /// - Parameter number: the lock that is taken back (`VolumeLock.number`). If a person has locked the volume after it, the
    ///   daemon refuses. Nil unlocks in any case.
    /// - Returns: false if it was unlocked already. The secret was not tried then.
    /// - Throws: `VolumeControlError.wrongSecret`.
    @discardableResult
    public func unlock(
        _ secret: consuming GuardedSecret, ifLock number: Int64? = nil
    ) throws(VolumeControlError) -> Bool {
        let credential = secret.credential()
        let condition = number.map { UnlockCondition.ifLock($0) } ?? .always
        let outcome = try call { client throws(ControlError) in
            try StoreProof.require(client, entry, of: entry.source)
            return try client.unlock(credential, when: condition)
        }
        return outcome != .alreadyUnlocked
    }

    /// Begins to unmount. `events` ends when the mount has ended.
    ///
    /// - Parameter isForced: end it even if programs use it.
    /// - Throws: `VolumeControlError.busy` if programs use it.
    public func unmount(isForced: Bool = false) throws(VolumeControlError) {
        try call { client throws(ControlError) in try client.unmount(isForced: isForced) }
    }

    /// A connection to the daemon.
    func connect() throws(VolumeControlError) -> ControlClient {
        do throws(ControlError) { return try ControlClient(to: entry) } catch {
            throw VolumeControlError(error, mountPoint)
        }
    }

    private func call<Result>(
        _ body: (borrowing ControlClient) throws(ControlError) -> Result
    ) throws(VolumeControlError) -> Result {
        let client = try connect()
        do throws(ControlError) { return try body(client) } catch { throw VolumeControlError(error, mountPoint) }
    }
}
