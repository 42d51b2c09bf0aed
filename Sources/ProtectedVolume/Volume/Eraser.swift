// Destroying the small files that hold keys: overwritten where they lie, made durable, read back, and only then removed.

public import BackingStore
internal import SodiumKit
internal import VolumeFormat

/// What becomes of one file that is to be destroyed.
public enum ErasureOutcome: Sendable, Equatable {
    /// Overwritten, read back and removed, durably.
    case destroyed
    /// There was nothing of that name.
    case missing
    /// Removed; it was no regular file.
    case removed
}

/// Destroys files; what the medium below keeps of them is out of its reach.
public enum Eraser {
    /// No file with keys is longer; of a longer one so much is overwritten.
    private static let longest = 1 << 20

    /// Destroys a file. Interrupted at any moment it leaves the file as it was, or overwritten in part or whole, or
    /// nothing: doing it again ends it.
    ///
    /// - Throws: EIO when what was written is not what is read back.
    public static func destroy(_ name: EntryName, in directory: BackingDirectory) throws(Errno) -> ErasureOutcome {
        let status: Status
        do throws(Errno) { status = try directory.status(of: name) } catch {
            if error == .ENOENT { return .missing }
            throw error
        }
        if status.kind == .regular {
            try overwrite(directory.openFile(name, .readWrite), length: Int(min(status.size, UInt64(longest))))
        }
        try directory.unlink(name)
        try directory.synchronize()
        do throws(Errno) { _ = try directory.status(of: name) } catch {
            guard error == .ENOENT else { throw error }
            return status.kind == .regular ? .destroyed : .removed
        }
        throw .EIO
    }

    /// Destroys a file whose content alone tells that it is to be destroyed: it gets a name that tells the same first, so
    /// that a second run knows it when it is overwritten.
    public static func destroyMarked(
        _ name: EntryName, in directory: BackingDirectory
    ) throws(Errno) -> ErasureOutcome {
        guard let marked = EntryName(Array(name.bytes) + Array(".erasing".utf8)) else { throw .ENAMETOOLONG }
        // What a former run has left.
        let before = try destroy(marked, in: directory)
        do throws(Errno) {
            try directory.rename(name, to: directory, marked)
        } catch {
            if error == .ENOENT { return before }
            throw error
        }
        try directory.synchronize()
        return try destroy(marked, in: directory)
    }

    private static func overwrite(_ file: BackingFile, length: Int) throws(Errno) {
        var noise = [UInt8](repeating: 0, count: length)
        var span = noise.mutableSpan
        var raw = unsafe span.mutableBytes
        randomBytes(into: &raw)
        try unsafe file.write(noise.span.bytes, at: 0)
        try file.synchronize(dataOnly: false)
        var found = [UInt8](repeating: 0, count: length)
        var target = found.mutableSpan
        var bytes = unsafe target.mutableBytes
        guard try file.read(into: &bytes, at: 0) == length, found == noise else { throw .EIO }
    }
}

extension KeybagFile {
    /// The names under which a keybag, or a part of one, can lie in a volume; the keybag itself is the last.
    public static var allNames: [EntryName] {
        [previous, temporary, current].compactMap { $0 }
    }
}

extension StateFileStore {
    /// Destroys the state file and removes what locked it.
    public func destroy() throws(Errno) -> ErasureOutcome {
        let outcome = try Eraser.destroy(stateName, in: directory)
        do throws(Errno) { try directory.unlink(lockName) } catch { if error != .ENOENT { throw error } }
        return outcome
    }
}
