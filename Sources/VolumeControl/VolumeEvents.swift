// The events of a mount, as an asynchronous sequence.

internal import Control
internal import HostSystem
internal import Keybag

/// Something that has happened to a mounted volume.
public enum VolumeEvent: Sendable, Equatable {
    /// The first event: the state at the beginning. No event after it is missed.
    case began(VolumeLockState)
    /// A lock begins, after at most this many seconds.
    case willLock(grace: Double)
    /// The keys of classes A and B are wiped. The state is `locked`. `inactive` follows.
    case locked
    /// The keys are wiped, but the kernel still holds plaintext of this many files. `locked` follows.
    case sweeping(files: Int)
    /// The time of class `completeWhenUserInactive` after a lock has run out: its keys are wiped. The kernel still holds
    /// plaintext of this many of its files.
    case inactive(files: Int)
    /// An unlock begins.
    case willUnlock
    /// The volume is unlocked.
    case unlocked

    init(_ event: ControlEvent) {
        switch event {
        case .willLock(_, let grace): self = .willLock(grace: grace)
        case .locked: self = .locked
        case .sweeping(let files): self = .sweeping(files: files)
        case .inactive(let files): self = .inactive(files: files)
        case .willUnlock: self = .willUnlock
        case .unlocked, .firstUnlock: self = .unlocked
        }
    }
}

extension MountedVolume {
    /// The events of the mount. They end when the mount ends.
    ///
    /// No lock waits for the program that reads them. For that there is `ProtectedData` in FileProtection.
    ///
    /// - Throws: `VolumeControlError` if the daemon cannot be asked.
    public func events() throws(VolumeControlError) -> AsyncThrowingStream<VolumeEvent, any Error> {
        let reader: EventReader
        let client = try connect()
        do throws(SystemError) { reader = try EventReader(client, mountPoint) } catch {
            throw .failed("\(error)")
        }
        let state = try reader.begin()
        return AsyncThrowingStream { continuation in
            continuation.yield(.began(state))
            continuation.onTermination = { _ in reader.stop.raise() }
            let thread = BackgroundThread(name: "volume events") {
                do throws(VolumeControlError) {
                    try reader.read { continuation.yield($0) }
                    continuation.finish()
                } catch {
                    continuation.finish(throwing: error)
                }
            }
            if thread == nil { continuation.finish(throwing: VolumeControlError.failed("no thread can be started")) }
        }
    }
}

/// The connection of a subscriber, which one thread reads.
private final class EventReader: Sendable {
    private let client: ControlClient
    private let mountPoint: String
    /// Raised when nobody reads the events any more.
    let stop: Wakeup

    init(_ client: consuming ControlClient, _ mountPoint: String) throws(SystemError) {
        self.client = client
        self.mountPoint = mountPoint
        stop = try Wakeup()
    }

    func begin() throws(VolumeControlError) -> VolumeLockState {
        do throws(ControlError) { return VolumeLockState(try client.subscribe(wait: false)) } catch {
            throw VolumeControlError(error, mountPoint)
        }
    }

    /// Passes events on until the mount ends, or `stop` is raised.
    func read(_ take: (VolumeEvent) -> Void) throws(VolumeControlError) {
        while true {
            var entries = [client.pollEntry, stop.pollEntry]
            PollEntry.wait(&entries, until: nil)
            if entries[1].isReady { return }
            do throws(ControlError) { take(VolumeEvent(try client.nextEvent(timeout: 30))) } catch .closed {
                return
            } catch .timedOut {
                continue
            } catch {
                throw VolumeControlError(error, mountPoint)
            }
        }
    }
}
