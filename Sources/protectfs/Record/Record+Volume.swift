// Entries of the record that come from a mounted volume.

import FuseFrontend
import HostSystem
import KeyFiles
import Keybag
import ProtectedVolume
import VolumeFormat

extension Record {
    /// Records a notice of the volume, if nothing but a change of the store explains it.
    static func write(_ notice: VolumeNotice, _ volume: VolumeID) {
        let (damage, inode): (Damage, UInt64?)
        switch notice {
        case .damaged(let found, let place): (damage, inode) = (found, place)
        case .undecryptable(let directory, _): (damage, inode) = (.name, directory)
        case .missingRecord(let directory): (damage, inode) = (.missingRecord, directory)
        case .late(_, .refused), .late(_, .notListed), .late(_, .cutOff), .late(_, .missing):
            (damage, inode) = (.late, nil)
        case .crashEvidence, .restoredRecord, .newer, .unprovenPublicKey, .late: return
        }
        write(.tampering, volume, [.damage(damage)] + (inode.map { [.inode($0)] } ?? []))
    }

    /// Records what a mount noticed while it served programs. Locks and unlocks are recorded where it is known who asked.
    static func write(_ event: FrontendEvent, _ volume: VolumeID) {
        switch event {
        case .classLowered(let change):
            let details: [Detail] = [.inode(change.inode), .classes(from: change.before, to: change.after)]
            write(.classLowered, volume, Detail.by(change.user) + details)
        case .damaged(let damage, let inode): write(.tampering, volume, [.damage(damage), .inode(inode)])
        case .locking, .locked, .sweeping, .inactive, .unlocked, .idle: break
        }
    }
}
