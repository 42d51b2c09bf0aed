// The late records that may exist, as long as it is not known which do.

package import BackingStore
internal import FileContents
internal import KeyFiles
internal import HostSystem
package import VolumeFormat

extension LateRecords {
    /// The late files that a new state file lists: all of them, because it is not known which were used.
    package static func openLocks(of volume: VolumeID, in root: BackingDirectory) -> [StateFileLayout.OpenLock] {
        let own = numbers(in: root).filter { number in
            guard let file = try? root.openFile(BackingName.known(LateFileName.bytes(of: number)), .readOnly),
                let header = try? LateFileContent.header(of: file)
            else { return false }
            return header.volumeID == volume && header.number == number
        }
        return own.suffix(StateFileLayout.maximumLocks).map { .init(number: $0) }
    }

    /// Whether records may wait for a file that is opened while its class is closed. Those of earlier mounts are read at the
    /// first unlock; before it, any late file counts.
    func mayOwe(_ file: ObjectID) -> Bool {
        if owes(file) { return true }
        if !isLoaded, (try? listed())?.isEmpty != true { return true }
        return current?.take(from: 0).contains { $0.header.fileID == file } ?? false
    }
}
