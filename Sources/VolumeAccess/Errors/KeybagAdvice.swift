// What is in a volume's directory when its keybag cannot be used, and the command that puts one back.

import BackingStore
package import CommandSupport
package import HostSystem
import KeyFiles
import Keybag
import VolumeFormat

/// The next step for a person whose volume has no keybag that opens.
package enum KeybagAdvice {
    /// The name of a keybag that a command was writing when it was cut off.
    private static let unfinished = "\(ReservedName.temporaryPrefix)keybag"
    /// The name of a keybag whose destruction has begun.
    private static let erasing = "\(ReservedName.keybag).erasing"

    /// The next step if the keybag is there and cannot be used.
    static func restoring(_ volume: HostPath) -> String {
        guard isThere("\(ReservedName.previousKeybag)", in: volume) else {
            return "put a copy from a backup in its place: \(importing(volume, "FILE"))"
        }
        return
            "\(ReservedName.previousKeybag), the keybag from before the last change, is there: \(importing(volume, previous(volume))) puts it back, and --previous-keybag uses it once; or put back a copy from a backup: \(importing(volume, "FILE"))"
    }

    /// The failure if the keybag is missing: what is there in its place.
    static func missing(_ volume: HostPath, in directory: HostDirectory) -> CommandFailure {
        let missing = "\(volume): \(ReservedName.keybag) is missing"
        if isThere(erasing, in: volume) {
            return .init(
                .volume, "\(missing), because protectfs erase was interrupted; protectfs erase \(volume.word) ends it")
        }
        if KeybagFile.hasPrevious(in: directory) {
            return .init(
                .volume,
                "\(missing), and \(ReservedName.previousKeybag), the one from before the last change, is there: \(importing(volume, previous(volume))) puts it back, and --previous-keybag uses it once"
            )
        }
        if isThere(unfinished, in: volume) {
            let path = volume.appending(unfinished).word
            return .init(
                .volume,
                "\(missing), and an unfinished one is there (\(unfinished)): \(importing(volume, path)) puts it in place if it is whole; or put back a copy from a backup: \(importing(volume, "FILE"))"
            )
        }
        if let failure = isMount(volume) { return failure }
        if isThere("\(ReservedName.directoryRecord)", in: volume) {
            return .init(
                .volume,
                "\(missing). The rest of a volume is there (\(ReservedName.directoryRecord)), which opens only with its own keybag: put back a copy from a backup: \(importing(volume, "FILE"))"
            )
        }
        return .init(
            .volume,
            "\(volume): not a protectfs volume (\(ReservedName.keybag) is missing, and nothing else of protectfs is there); check the path, or make a volume with protectfs init"
        )
    }

    /// The failure if a volume is mounted at the path of a volume. Nil if none is.
    package static func isMount(_ path: HostPath) -> CommandFailure? {
        let entry = try? MountTable.entry(at: (try? path.resolved()) ?? path)
        guard let entry, entry.isProtectfs else { return nil }
        return .init(
            .volume, "\(path): this is the mount of a volume, and not the volume; the volume is \(entry.source)")
    }

    /// The failure if the keybag from before the last change was asked for and is missing.
    static func missingPrevious(_ volume: HostPath) -> CommandFailure {
        let what =
            "\(volume): there is no keybag from before the last change (\(ReservedName.previousKeybag) is missing)"
        if isThere("\(ReservedName.keybag)", in: volume) {
            return .init(.volume, "\(what); \(ReservedName.keybag) is there: leave --previous-keybag out")
        }
        return .init(.volume, "\(what); put back a copy from a backup: \(importing(volume, "FILE"))")
    }

    /// The command that puts a keybag in place.
    static func importing(_ volume: HostPath, _ file: String) -> String {
        "protectfs keybag import \(volume.word) \(file)"
    }

    private static func previous(_ volume: HostPath) -> String {
        volume.appending("\(ReservedName.previousKeybag)").word
    }

    private static func isThere(_ name: String, in volume: HostPath) -> Bool {
        (try? FileStatus.read(volume.appending(name))) != nil
    }
}
