// Writes a whole file with a class. The class is set before the first byte, and the old content remains until the last
// byte is written.

import CLibrary
import CLinuxShim
import PlainFoundation
import VolumeFormat

/// The implementation of `Data.write` on a protected mount.
enum ProtectedWrite {
    /// Writes a file. Leaves only a write in place without a class to Foundation.
    static func write(_ data: Data, to url: URL, options: Data.WritingOptions) throws {
        let wanted = try options.protectionClass
        let plain = Data.WritingOptions(rawValue: options.rawValue & ~Data.WritingOptions.fileProtectionMask.rawValue)
        let isAtomic = options.contains(.atomic)
        let replacing = !options.contains(.withoutOverwriting)
        if wanted == nil, !isAtomic { return try explaining { try Plain.write(data, to: url, options: plain) } }
        if !isAtomic, replacing, url.isFileURL, let target = DanglingLink.target(of: url.path) {
            return try write(data, to: URL(fileURLWithPath: target), options: options)
        }
        guard url.isFileURL, let place = place(of: url.path, isNew: isAtomic || !replacing, replacing: replacing)
        else {
            if wanted != nil { try FileProtection.refuseOrGoOn(url.isFileURL ? url.path : url.absoluteString) }
            return try Plain.write(data, to: url, options: plain)
        }
        do throws(ProtectionSystemError) {
            try write(data, to: place, class: wanted, atomic: isAtomic, replacing: replacing)
        } catch {
            throw error.refusal(isAtomic ? .replace : .write, place.path, class: wanted)
        }
    }

    /// Where a write puts a file: a path, and the protected mount on which it is.
    typealias Place = (path: String, mount: ProtectedMount)

    /// Where a write to `path` puts the file; nil if that is outside every protected mount.
    ///
    /// A new file replaces a link, as in Foundation. If the link is outside every mount but its target is inside one,
    /// the new file replaces the target.
    static func place(of path: String, isNew: Bool, replacing: Bool) -> Place? {
        let mount = ProtectedMount.holdingEntry(path)
        if let mount, isNew { return (path, mount) }
        guard replacing, let target = ProtectedMount.holding(path) else { return nil }
        return mount != nil ? (path, target) : ExistingFile(path).map { ($0.path, target) }
    }

    private static func write(
        _ data: Data, to place: Place, class wanted: FileProtectionType?, atomic: Bool, replacing: Bool
    ) throws(ProtectionSystemError) {
        let path = place.path
        guard replacing, let old = ExistingFile(path) else {
            return try stage(data, at: place, class: wanted, mode: 0o666, replacing: replacing, durable: atomic)
        }
        guard old.mode & S_IFMT != S_IFDIR else { throw ProtectionSystemError(code: EISDIR, call: "open") }
        if atomic {
            // Without a class that is known, the new file would get that of the directory, which may be weaker.
            let type = if let wanted { wanted } else { try old.type }
            return try stage(data, at: place, class: type, like: old, explicit: wanted != nil)
        }
        // This is a write in place. Opening the file first checks that the program may write it.
        let file = unsafe open(path, O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { throw .last("open") }
        defer { close(file) }
        if let wanted, old.mode & S_IFMT == S_IFREG {
            // A class that cannot be read counts as stronger than every other one.
            let present = try? old.type
            if present != wanted, old.links == 1 {
                // A new class needs a new file key, because an old copy of the header must not open the new content.
                do throws(ProtectionSystemError) {
                    return try stage(data, at: (old.path, place.mount), class: wanted, like: old)
                } catch {
                    // If the directory is not writable, only the file itself can be written. Its old content must not
                    // get a weaker class.
                    guard error.code == EACCES, error.call == "mkdir", wanted.isAsStrong(as: present) else {
                        throw error
                    }
                }
            }
            // All hard links must remain names of one file. Its old content must not get a weaker class, also if this
            // program is killed before its next call.
            if !wanted.isAsStrong(as: present) {
                guard ftruncate(file, 0) == 0 else { throw .last("ftruncate") }
                guard fsync(file) == 0 else { throw .last("fsync") }
            }
            try ProtectionAttribute.set(wanted, file)
        }
        guard ftruncate(file, 0) == 0 else { throw .last("ftruncate") }
        try fill(file, with: data)
    }

    private static func stage(
        _ data: Data, at place: Place, class type: FileProtectionType?, like old: ExistingFile? = nil,
        mode: mode_t = 0o600,
        replacing: Bool = true, explicit: Bool = true, durable: Bool = true
    ) throws(ProtectionSystemError) {
        // Nobody can open a file without a name, so it may have its permissions from the beginning.
        let first = old.map { $0.mode & 0o777 } ?? mode
        if let type, explicit,
            let file = NamelessFile(for: place.path, on: place.mount, class: type, mode: first, replaces: old != nil)
        {
            try write(data, into: file.descriptor, like: old, durable: durable)
            if try file.commit(replacing: replacing) { return }
        }
        let staging = try Staging(beside: place.path, class: type)
        defer { staging.remove() }
        let file = try staging.create(mode: mode)
        defer { close(file) }
        if let type, explicit { try ProtectionAttribute.set(type, file) }
        try write(data, into: file, like: old, durable: durable)
        try staging.commit(to: place.path, replacing: replacing)
    }

    /// Writes the content, with the owner and the permissions of the file that is replaced.
    private static func write(
        _ data: Data, into file: Int32, like old: ExistingFile?, durable: Bool
    ) throws(ProtectionSystemError) {
        try fill(file, with: data)
        if let old {
            // Only root can change the owner. For other users the new file belongs to them, as after every save by
            // rename.
            var made = stat()
            guard unsafe fstat(file, &made) == 0 else { throw .last("fstat") }
            if made.st_uid != old.owner || made.st_gid != old.group { _ = fchown(file, old.owner, old.group) }
            if made.st_mode != old.mode {
                guard fchmod(file, old.mode & 0o7777) == 0 else { throw .last("fchmod") }
            }
        }
        // Otherwise a power failure after the rename could destroy both the old and the new content. The kernel need not
        // write the file's times first.
        if durable, fdatasync(file) != 0 { throw .last("fdatasync") }
    }

    /// Writes all bytes.
    static func fill(_ file: Int32, with data: Data) throws(ProtectionSystemError) {
        var done = 0
        while done < data.count {
            let count = unsafe data.withUnsafeBytes { bytes in
                unsafe CLibrary.write(file, bytes.baseAddress?.advanced(by: done), min(bytes.count - done, 1 << 24))
            }
            if count > 0 { done += count } else if errno != EINTR { throw .last("write") }
        }
    }
}

/// The file that exists before the write.
struct ExistingFile {
    /// Its path with all links resolved.
    let path: String
    let mode: mode_t
    let owner: uid_t
    let group: gid_t
    let links: UInt64

    /// Its class now; nil outside every protected mount.
    ///
    /// - Throws: the error of getxattr(2); EACCES if this program may not read the file.
    var type: FileProtectionType? {
        get throws(ProtectionSystemError) { try ProtectionAttribute.get(path) }
    }

    init?(_ path: String) {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        // Foundation's function is not used, because it resolves `..` after a link by its text.
        guard let real = unsafe realpath(path, nil) else { return nil }
        defer { unsafe free(real) }
        self.path = unsafe String(cString: real)
        mode = status.st_mode
        owner = status.st_uid
        group = status.st_gid
        links = UInt64(status.st_nlink)
    }
}

/// A symbolic link whose target does not exist. Writing through it makes the target.
private enum DanglingLink {
    /// The target of the last link of a chain; nil if the target exists or the path is not a link.
    static func target(of path: String) -> String? {
        var status = stat()
        guard unsafe stat(path, &status) != 0, errno == ENOENT else { return nil }
        var place = path
        // The chain is finite, because a loop would have caused ELOOP instead of ENOENT.
        while let next = try? Foundation.FileManager.default.destinationOfSymbolicLink(atPath: place) {
            let parent = (place as NSString).deletingLastPathComponent
            place = next.hasPrefix("/") || parent.isEmpty ? next : parent + "/" + next
        }
        return place == path ? nil : place
    }
}

extension FileProtectionType {
    /// Whether this class is closed in every state in which the other class is.
    func isAsStrong(as other: FileProtectionType?) -> Bool {
        guard let own = protectionClass, let other = other?.protectionClass else { return false }
        return !other.isStronger(than: own)
    }
}

extension Data.WritingOptions {
    /// Gives the file the class `completeWhenUserInactive`. Foundation on Linux lacks this name.
    public static let completeFileProtectionWhenUserInactive = Data.WritingOptions(rawValue: 0x5000_0000)

    /// The class that the options name. The classes are numbers in one bit field, so `contains` cannot distinguish
    /// them.
    var protectionClass: FileProtectionType? {
        get throws(FileProtectionError) {
            let field = rawValue & Data.WritingOptions.fileProtectionMask.rawValue
            switch field {
            case 0: return nil
            case Data.WritingOptions.noFileProtection.rawValue: return FileProtectionType.none
            case Data.WritingOptions.completeFileProtection.rawValue: return .complete
            case Data.WritingOptions.completeFileProtectionUnlessOpen.rawValue: return .completeUnlessOpen
            case Data.WritingOptions.completeFileProtectionWhenUserInactive.rawValue: return .completeWhenUserInactive
            case Data.WritingOptions.completeFileProtectionUntilFirstUserAuthentication.rawValue:
                return .completeUntilFirstUserAuthentication
            default: throw .unknownClass(value: "writing option 0x" + String(field, radix: 16))
            }
        }
    }
}
