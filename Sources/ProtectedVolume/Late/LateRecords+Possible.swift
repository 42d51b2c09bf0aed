// The late records that may exist, as long as it is not known which do.

internal import BackingStore
internal import FileContents
internal import KeyFiles
internal import HostSystem
internal import VolumeFormat

extension LateRecords {
    /// Whether records may wait for a file that is opened while its class is closed. Those of earlier mounts are read at the
    /// first unlock; before it, any late file counts.
    func mayOwe(_ file: ObjectID) -> Bool {
        if owes(file) { return true }
        if !isLoaded, (try? listed())?.isEmpty != true { return true }
        return current?.take(from: 0).contains { $0.header.fileID == file } ?? false
    }
}
