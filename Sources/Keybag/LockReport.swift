// The report of a lock of the volume.

package import VolumeFormat

/// The outcome of one lock: made by the lock sequence, sent over the control socket, shown by `protectfs lock`.
package struct LockReport: Sendable, Equatable {
    /// Open handles of class A that lost access.
    package var cutOff = 0
    /// The processes (threads) that opened them, if the kernel tells.
    package var processes: [Int32] = []
    /// The time it took.
    package var milliseconds: Int64 = 0
    /// The state after it: `locked`, `sweeping`, or before first unlock.
    package var state = VolumeState.locked
    /// The number of files of which the kernel still holds plaintext. Above 0 only in the state `sweeping`.
    package var files = 0
    /// Whether there was nothing to do.
    package var wasLocked = false
    /// The number of this lock since mounting. An unlock may name it, and is then refused after a later lock. Nil from a daemon
    /// that does not count.
    package var number: Int64?

    /// An empty report, to be filled in.
    package init() {}
}
