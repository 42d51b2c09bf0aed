// Erases the small files that hold keys. It overwrites them in place, syncs, reads them back, and only then removes them.

package import BackingStore
package import HostSystem
package import Keybag
internal import SodiumKit
internal import VolumeFormat

/// The outcome of erasing one file.
package enum ErasureOutcome: Sendable, Equatable {
    /// The file was overwritten, read back and removed, durably. Nil means that its bytes are gone from the disk.
    case destroyed(OverwriteDoubt?)
    /// No file had that name.
    case missing
    /// The entry was removed. It was not a regular file, or its file is destroyed under another name.
    case removed
    /// Only the name was removed. The file has this inode number and other names. It was not overwritten, because it may
    /// belong to someone else.
    case unlinked(inode: UInt64)
}

/// Erases files. It cannot reach copies that the storage device keeps.
package enum KeyFileEraser {
    /// No key file of any version is longer. Of a longer file, only this many bytes are overwritten, and the outcome says so.
    private static let longest: UInt64 = 16 << 20

    /// The name that a file gets before it is overwritten. A second run recognises the file by it, whatever the file still
    /// contains.
    package static func marked(_ name: EntryName) -> EntryName? {
        EntryName(Array(name.bytes) + Array(".erasing".utf8))
    }

    /// Erases a file, and the rest that an interrupted run has left. An interruption leaves the file unchanged, under its
    /// marked name, or removed. A second run completes it.
    ///
    /// - Parameters:
    ///   - others: names in this directory that are destroyed after this one and may be names of the same file.
    ///   - marks: false for a file that need not be recognised when it is half overwritten. It keeps its name.
    /// - Throws: EIO when the bytes read back differ from those written.
    package static func destroy(
        _ name: EntryName, in directory: BackingDirectory, others: [EntryName] = [], marks: Bool = true
    ) throws(Errno) -> ErasureOutcome {
        guard let marked = marked(name) else { throw .ENAMETOOLONG }
        // The rest that an interrupted run has left.
        let before = try end(marked, in: directory, others: [])
        let status: Status
        do throws(Errno) { status = try directory.status(of: name) } catch {
            if error == .ENOENT { return before }
            throw error
        }
        guard marks, status.kind == .regular, status.links == 1 else {
            return try end(name, in: directory, others: others)
        }
        try directory.rename(name, to: directory, marked)
        try directory.synchronize()
        return try end(marked, in: directory, others: [])
    }

    /// Overwrites a file that has only one name, and removes the name.
    private static func end(
        _ name: EntryName, in directory: BackingDirectory, others: [EntryName]
    ) throws(Errno) -> ErasureOutcome {
        let outcome: ErasureOutcome
        do throws(Errno) { outcome = try overwrite(name, in: directory, others: others) } catch {
            if error == .ENOENT { return .missing }
            throw error
        }
        try directory.unlink(name)
        try directory.synchronize()
        do throws(Errno) { _ = try directory.status(of: name) } catch {
            guard error == .ENOENT else { throw error }
            return outcome
        }
        throw .EIO
    }

    private static func overwrite(
        _ name: EntryName, in directory: BackingDirectory, others: [EntryName]
    ) throws(Errno) -> ErasureOutcome {
        guard try directory.status(of: name).kind == .regular else { return .removed }
        let file = try directory.openFile(name, .readWrite)
        // Asks the open file, because the name may mean another file by now.
        let status = try file.status()
        if status.links > 1 {
            let own = others.filter { other in
                (try? directory.status(of: other)).map { $0.inode == status.inode && $0.device == status.device }
                    ?? false
            }
            return own.count + 1 == status.links ? .removed : .unlinked(inode: status.inode)
        }
        // Overwrites to the end of the last block. Bytes after the end of the file may have been a key too.
        let length = min(status.size, longest)
        var doubt: OverwriteDoubt?
        do throws(Errno) {
            doubt = try file.overwrite(with: noise(max(length, min(status.blocks * 512, longest))))
        } catch {
            guard error == .ENOSPC || error == .EDQUOT else { throw error }
            doubt = try file.overwrite(with: noise(length))
        }
        return .destroyed(doubt ?? (status.size > longest ? OverwriteDoubt("the file system", .length) : nil))
    }

    private static func noise(_ length: UInt64) -> [UInt8] {
        var noise = [UInt8](repeating: 0, count: Int(length))
        var raw = noise.mutableSpan
        randomBytes(into: &raw)
        return noise
    }
}

extension KeybagFile {
    /// The names that a keybag, or a part of one, can have in a volume; the current keybag is the last.
    package static var allNames: [EntryName] { [previous, temporary, current] }

    /// Erases the file with one of `allNames`. Only the current keybag is marked, because no key opens the volume without it.
    /// If the volume still opens, a check finds the other keybags by their names.
    package static func destroy(_ name: EntryName, in root: BackingDirectory) throws(Errno) -> ErasureOutcome {
        let others = allNames.drop { $0 != name }.dropFirst()
        return try KeyFileEraser.destroy(name, in: root, others: Array(others), marks: name == current)
    }

    /// Reads every current or former keybag of a volume, damaged ones too; the current one is the first.
    package static func remains(in root: BackingDirectory) -> [KeybagRemains] {
        let names = [current, previous, temporary]
        return (names + names.compactMap(KeyFileEraser.marked)).compactMap { name in
            (try? read(name, in: root)).flatMap { KeybagRemains($0) }
        }
    }

    /// At most one byte more than the longest keybag.
    package static func read(_ name: EntryName, in root: BackingDirectory) throws(Errno) -> [UInt8] {
        var found: [UInt8] = []
        for _ in 0..<10 {
            guard try root.status(of: name).kind == .regular else { throw .EINVAL }
            let file = try root.openFile(name, .readOnly)
            found = try bytes(of: file)
            // A keybag is overwritten when another one has got its name.
            let (own, now) = (try file.status(), try root.status(of: name))
            if own.inode == now.inode, own.device == now.device { break }
        }
        return found
    }
}
