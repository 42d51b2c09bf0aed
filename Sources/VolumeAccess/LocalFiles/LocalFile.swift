// The files that this machine keeps for a volume beside its device keys. Only this file makes and reads their names.

import KeyFiles
package import HostSystem
package import VolumeFormat

/// A file of `SystemPaths.data` that is named after a volume: `UUID.key`, `UUID.2.key`, `UUID.key.old`, `UUID.state`,
/// `UUID.2.state`, `UUID.state.forgotten-1`, `UUID.check`, `UUID.2.check`, `UUID.lock`, `UUID.keybag.lock`,
/// `UUID.copied`, `UUID.mount.lock`, `UUID.2.mount.lock`, `UUID.changed-EPOCH`, `UUID.2.changed-EPOCH`, `UUID.seen`, `UUID.2.seen`.
package struct LocalFile {
    /// Its path, without the suffix that `erase` appends while it destroys the file.
    package let path: HostPath
    /// The words between the dots, without the UUID.
    private let words: [String]
    /// Whether `erase` has begun to destroy it.
    package let isBeingErased: Bool

    /// Whether it is a device key: `UUID.key`, `UUID.N.key`, or one that `recovery use` has replaced.
    package var isDeviceKey: Bool { words.contains("key") }
    /// Whether it is a device key that `recovery use` has replaced: `UUID.key.old` and its like.
    package var isReplacedKey: Bool { isDeviceKey && words.last != "key" }
    /// Whether it is a state file: `UUID.state` or `UUID.N.state`, or one that was set aside.
    package var isState: Bool { words.contains("state") }
    /// Whether it is a state file that was set aside, so that nothing uses it any more: `UUID.state.forgotten-1`.
    package var isSetAside: Bool { isState && words.last != "state" }
    /// Whether it is a lock, or the record of an interrupted check or of a copy. Nobody needs one without the other files.
    package var isIncidental: Bool { ["lock", "check", "copied"].contains(words.last) }

    /// Whether it is a list of changed files, or a table of seen versions, without its state file, so that nothing uses it any more.
    package var isUselessList: Bool {
        guard let kind = words.last, kind.hasPrefix("changed-") || kind == "seen" else { return false }
        let number = words.count == 1 ? 1 : Int(words[0]) ?? 0
        guard let volume = VolumeID(text: String(path.lastComponent.description.prefix(36))) else { return false }
        return !LocalFile.stateNumbers(of: volume).contains(number)
    }

    /// The number of the store that a `UUID.suffix` (1) or `UUID.N.suffix` belongs to. Nil for any other name.
    private func number(suffix: String) -> Int? {
        guard !isBeingErased, words.last == suffix else { return nil }
        if words.count == 1 { return 1 }
        guard words.count == 2, let number = Int(words[0]), number > 1, words[0] == "\(number)" else { return nil }
        return number
    }

    private static let erasing = Array(".erasing".utf8)

    /// The name of a file while it is being destroyed.
    package static func beingErased(_ path: HostPath) -> HostPath { HostPath(bytes: path.bytes + erasing) }

    /// All files of a volume, by name. Empty if the directory is missing.
    package static func all(of volume: VolumeID) -> [LocalFile] {
        let names = (try? FileStatus.names(in: SystemPaths.data)) ?? []
        return names.compactMap { (name: HostPath) -> LocalFile? in
            let isBeingErased = name.bytes.suffix(erasing.count).elementsEqual(erasing)
            let bytes = isBeingErased ? name.bytes.dropLast(erasing.count) : name.bytes[...]
            let words = bytes.split(separator: UInt8(ascii: "."), omittingEmptySubsequences: false)
                .map { String(decoding: $0, as: UTF8.self) }
            guard words.first == "\(volume)" else { return nil }
            return LocalFile(
                path: SystemPaths.data.appending(bytes: Array(bytes)), words: Array(words.dropFirst()),
                isBeingErased: isBeingErased)
        }
    }

    /// The device keys of a volume: those in use first, then those that were replaced, which open older copies.
    package static func deviceKeys(of volume: VolumeID) -> [LocalFile] {
        let keys = all(of: volume).filter(\.isDeviceKey)
        return keys.filter { !$0.isReplacedKey } + keys.filter(\.isReplacedKey)
    }

    /// The numbers of the stores that have a device key here, in ascending order.
    static func deviceKeyNumbers(of volume: VolumeID) -> [Int] {
        all(of: volume).compactMap { $0.number(suffix: "key") }.sorted()
    }

    /// The numbers of the stores that have a state file here, in ascending order.
    static func stateNumbers(of volume: VolumeID) -> [Int] {
        all(of: volume).compactMap { $0.number(suffix: "state") }.sorted()
    }

    /// The device key of the store with this number.
    package static func deviceKey(of volume: VolumeID, number: Int = 1) -> HostPath {
        SystemPaths.data.appending(number == 1 ? "\(volume).key" : "\(volume).\(number).key")
    }

    /// The state file of the store with this number.
    package static func state(of volume: VolumeID, number: Int) -> HostPath {
        SystemPaths.data.appending(StateFileStore.fileName(volume, number))
    }

    /// The lock of commands that change the keybag.
    static func keybagLock(of volume: VolumeID) -> HostPath { SystemPaths.data.appending("\(volume).keybag.lock") }

    /// The record of the last copy of the keybag.
    static func copyRecord(of volume: VolumeID) -> HostPath { SystemPaths.data.appending("\(volume).copied") }

    /// The lock of the volume's state files.
    static func stateLock(of volume: VolumeID) -> HostPath { SystemPaths.data.appending("\(volume).lock") }

    /// The lock of a mount or check that writes by the state file with this number.
    static func mountLock(of volume: VolumeID, number: Int) -> HostPath {
        SystemPaths.data.appending(number == 1 ? "\(volume).mount.lock" : "\(volume).\(number).mount.lock")
    }

    /// The name under which `fsck --forget-state` sets a state file aside, at the given attempt.
    static func forgottenState(_ name: String, attempt: Int) -> String { "\(name).forgotten-\(attempt)" }

    /// The name under which a device key is set aside when it is replaced, at the given attempt.
    package static func replacedKey(_ path: HostPath, attempt: Int) -> HostPath {
        HostPath(bytes: path.bytes + Array((attempt == 1 ? ".old" : ".old.\(attempt)").utf8))
    }
}
