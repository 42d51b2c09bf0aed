// What this machine remembers of the last copy of a volume's keybag on another disk: `UUID.copied`.

import CLibrary
internal import HostSystem
package import Keybag
package import VolumeFormat

/// Which keybag `keybag export` has copied last, and when. It is a hint: a file that cannot be read or written is as none.
package struct KeybagCopyRecord {
    /// The second MAC of the keybag, in hexadecimal digits. It covers everything else in it.
    private let mac: String
    /// When the copy was made, in seconds since 1970.
    package let seconds: Int64

    /// A copy that was made now.
    package init(of bag: Keybag) { (mac, seconds) = (Self.mac(of: bag), WallClock.seconds) }

    /// Reads the record of a volume.
    package init?(of volume: VolumeID) {
        guard let bytes = try? readFile(LocalFile.copyRecord(of: volume), limit: 128) else { return nil }
        let fields = String(decoding: bytes, as: UTF8.self).split(separator: "\n")
        guard fields.count == 2, let seconds = Int64(fields[1]) else { return nil }
        (mac, self.seconds) = (String(fields[0]), seconds)
    }

    /// Whether the copy is of this keybag, as it is now.
    package func isCopy(of bag: Keybag) -> Bool { mac == Self.mac(of: bag) }

    /// Writes the record of a volume.
    package func write(_ volume: VolumeID) {
        let path = LocalFile.copyRecord(of: volume)
        let flags = O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK
        guard let file = try? Descriptor(opening: path, flags, mode: 0o600) else { return }
        try? file.write(Array("\(mac)\n\(seconds)\n".utf8).span)
    }

    private static func mac(of bag: Keybag) -> String { Hexadecimal.text(bag.bytes.suffix(32)) }
}
