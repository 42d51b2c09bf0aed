// What a lock of the volume did.

package import VolumeFormat

/// The outcome of one lock: made by the lock sequence, sent over the control socket, shown by `protectfs lock`.
package struct LockReport: Sendable, Equatable {
    /// Open handles of class A that lost access.
    package var cutOff = 0
    /// The processes (threads) that opened them, where the kernel tells.
    package var processes: [Int32] = []
    /// How long it took.
    package var milliseconds: Int64 = 0
    /// The state after it: `locked`, `sweeping`, or before first unlock.
    package var state = VolumeState.locked
    /// Files of which the kernel still holds plaintext: above 0 in the state `sweeping` only.
    package var files = 0
    /// Whether there was nothing to do.
    package var wasLocked = false

    /// An empty report, to be filled in.
    package init() {}
}
