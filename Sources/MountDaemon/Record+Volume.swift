// Entries of the record that come from a mounted volume.

import HostSystem
import KeyFiles
import Keybag
import ProtectedVolume
import VolumeAccess
import VolumeFormat

extension Record {
    /// Records a notice of the volume, if nothing but a change of the store explains it.
    static func write(_ notice: VolumeNotice, _ volume: VolumeID) {
        let (damage, inode): (Damage, UInt64?)
        switch notice {
        case .damaged(let found, let place): (damage, inode) = (found, place)
        case .older(let place): (damage, inode) = (.older, place)
        case .undecryptable(let directory, _): (damage, inode) = (.name, directory)
        case .missingRecord(let directory): (damage, inode) = (.missingRecord, directory)
        case .late(_, .refused), .late(_, .notListed), .late(_, .cutOff), .late(_, .missing):
            (damage, inode) = (.late, nil)
        case .crashEvidence, .restoredRecord, .newer, .unprovenPublicKey, .late, .seenTable: return
        }
        write(.tampering, volume, [.damage(damage)] + (inode.map { [.inode($0)] } ?? []))
    }
}
