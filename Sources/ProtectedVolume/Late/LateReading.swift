// Opens a late file, and tells a newer one from one that this volume did not make.

internal import BackingStore
internal import HostSystem
internal import Keybag
internal import VolumeFormat

/// What a late file turned out to be.
enum LateReading: Sendable {
    /// Shorter than a header.
    case empty
    /// This volume did not make the file.
    case refused
    /// A newer version has made the file or a record in it.
    case newer
    /// Made by this version, with the records that verify.
    case whole(BackingFile, LateKey, LateFileContent)

    /// Reads the late file of the lock `number`. The class keys must be in memory.
    init(_ number: UInt64, in root: BackingDirectory, _ keys: KeyRing, _ access: FileAccess) throws(Errno) {
        let file = try root.openFile(BackingName.known(LateFileName.bytes(of: number)), access)
        let length = try file.status().size
        guard let header = try LateFileContent.header(of: file), header.number == number else {
            self = length < UInt64(LateFileHeader.length) ? .empty : .refused
            return
        }
        let key: LateKey
        do throws(KeyError) {
            key = try keys.withState { (held: borrowing HeldKeys) throws(KeyError) in try held.openLateKey(header) }
        } catch {
            switch error {
            case .memory: throw .ENOMEM
            case .newer: self = .newer
            default: self = .refused
            }
            return
        }
        let found = try LateFileContent(reading: file, key)
        self = found.isNewer ? .newer : .whole(file, key, found)
    }
}
