// Opens a late file, and tells a newer one from one that this volume did not make.

package import BackingStore
package import HostSystem
internal import KeyFiles
package import Keybag
internal import VolumeFormat

/// What a late file turned out to be.
package enum LateReading: Sendable {
    /// Another mount of a shared store writes it, or applies it.
    case inUse
    /// Shorter than a header.
    case empty
    /// This volume did not make the file.
    case refused
    /// A newer version has made the file or a record in it.
    case newer
    /// Made by this version, with the records that verify.
    case whole(BackingFile, LateKey, LateFileContent)

    /// Reads the late file of the lock `number`. The class keys must be in memory.
    package init(_ number: UInt64, in root: BackingDirectory, _ keys: KeyRing, _ access: FileAccess) throws(Errno) {
        let file = try root.openFile(BackingName.known(LateFileName.bytes(of: number)), access)
        if access == .readWrite {
            do throws(Errno) { try file.setLock(.exclusive, LockRange.content, waits: false) } catch {
                if error == .EAGAIN || error == .EACCES {
                    self = .inUse
                    return
                }
            }
        }
        let length = try file.status().size
        guard let header = try LateFiles.header(of: file), header.number == number else {
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

extension Timestamp {
    static func < (one: Timestamp, other: Timestamp) -> Bool {
        (one.seconds, one.nanoseconds) < (other.seconds, other.nanoseconds)
    }

    init(_ header: LateRecordHeader) {
        self.init(seconds: header.seconds, nanoseconds: Int64(header.nanoseconds))
    }
}
