// Moves the access time when a program reads.

package import BackingStore
internal import HostSystem
internal import Synchronization

extension FileContent {
    /// How long the access time counts as new enough without another look at it, in nanoseconds.
    private static let accessPatience: UInt64 = 60_000_000_000

    /// The value of `accessLook` if the next read moves the time without a look.
    private static let isDue: UInt64 = 1

    /// Called when the file was opened, with its status then: it spares the first look.
    package func noteAccessTime(_ status: Status) {
        guard case .relative = context.options.accessTimes else { return }
        let isDue = status.accessTimeIsDue(at: WallClock.seconds)
        accessLook.store(isDue ? Self.isDue : monotonicNanoseconds(), ordering: .relaxed)
    }

    /// Called after a program has read. Moves the access time if the mount's options say so. Under `relatime` the store is not
    /// touched, and not asked, again until the file changes or a minute has passed.
    /// - Returns: whether the time may have moved.
    @discardableResult
    package func noteAccess() -> Bool {
        guard !context.isReadOnly else { return false }
        switch context.options.accessTimes {
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

    /// Called after a change of the file, of its names or attributes: the next read moves the access time.
    package func forgetAccessLook() { accessLook.store(0, ordering: .relaxed) }
}
