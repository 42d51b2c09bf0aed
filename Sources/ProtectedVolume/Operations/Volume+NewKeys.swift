// Tests whether a new file of a class can be made now.

internal import KeyFiles
internal import Keybag
internal import HostSystem
internal import VolumeFormat

extension Volume {
    /// Refuses a class in which no file can be made now, because the state does not allow it or its key is not in
    /// memory.
    func requireKey(forNew protectionClass: ProtectionClass) throws(VolumeError) {
        let (isAllowed, canWrap) = keys.withState { held in
            (
                Access.isAllowed(.create, class: protectionClass, state: held.state(of: protectionClass)),
                held.canWrap(protectionClass)
            )
        }
        if isAllowed, canWrap { return }
        if isAllowed, protectionClass == .completeUnlessOpen { notices.tellUnprovenKey() }
        throw .locked(protectionClass)
    }
}
