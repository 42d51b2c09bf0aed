// How far the end of a mount has come, and what only its ending needs.

internal import CLibrary
import HostSystem

/// The state of a mount's end. Thread-safe.
final class MountEnding: Sendable {
    /// Ends the connection (fusectl). Opened while the mount exists, because its number is given to another one later.
    private let abortFile: Descriptor?
    private let serving = RWLock(true)
    private let isTold = Lock(false)
    private let unmounter = Lock<UInt32?>(nil)

    /// The ending of a mount that serves.
    init(of entry: MountEntry) {
        abortFile = try? Descriptor(opening: HostPath("/sys/fs/fuse/connections/\(entry.minor)/abort"), O_WRONLY)
    }

    /// Whether the session still serves.
    var isServing: Bool { serving.withReadLock { $0 } }

    /// Runs `body` if the session still serves, which is not freed meanwhile. A lock or unmount that the socket did not ask for
    /// runs in it.
    @discardableResult
    func whileServing<Result>(_ body: () -> Result) -> Result? { serving.withReadLock { $0 ? body() : nil } }

    /// The session has ended, or is given up. Waits for what runs while it serves; the session can be freed then.
    func stopServing() { serving.withWriteLock { $0 = false } }

    /// The mount has been told to end: keys that are wiped stay wiped.
    func tell() { isTold.withLock { $0 = true } }

    /// Runs `body` unless the mount has been told to end. `tell` waits for it.
    func unlessTold<Result, Failure: Error>(_ body: () throws(Failure) -> Result) throws(Failure) -> Result? {
        try isTold.withLock { (isTold) throws(Failure) in isTold ? nil : try body() }
    }

    /// Who asked last to unmount it.
    var askedBy: UInt32? {
        get { unmounter.withLock { $0 } }
        set { unmounter.withLock { $0 = newValue } }
    }

    /// Ends the connection. False if the system does not offer that.
    func abort() -> Bool { (try? abortFile?.write("1\n")) != nil }
}
