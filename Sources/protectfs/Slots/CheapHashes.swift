// Passphrases whose hash costs less than one that would be made now.

import CommandSupport
import HostSystem
import Keybag
import SodiumKit
import VolumeAccess

/// They were made on a slower machine, or with a lower cost in the configuration.
struct CheapHashes {
    private let slots: [UInt32]
    private let wanted: Argon2Parameters

    /// Nil if there are none, or that cannot be told. Without a cost in the configuration it measures this machine.
    init?(_ bag: Keybag) {
        guard bag.slots.contains(where: { $0.cost != nil }), let wanted = try? Policy.read().cost() else { return nil }
        slots = bag.slots.filter { $0.cost?.isFarBelow(wanted) ?? false }.map(\.id)
        if slots.isEmpty { return nil }
        self.wanted = wanted
    }

    /// What is wrong, as a clause.
    var problem: String {
        let list = slots.map { "\($0)" }.joined(last: "and")
        return
            "the password hash of slot\(slots.count == 1 ? "" : "s") \(list) costs less than half of what it would here (\(wanted.passes) passes, \(wanted.memory >> 20) MiB)"
    }

    /// What to do.
    func advice(_ volume: HostPath) -> String {
        "to make it anew: protectfs passphrase change \(volume.word), with the same passphrase if you like"
    }
}
