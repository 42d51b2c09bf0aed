// Writing a whole file with a class: the class stands before the first byte, and the old content until the last.

import CLinuxShim
import Glibc
import PlainFoundation
import VolumeFormat

/// What `Data.write` does on a protected mount.
enum ProtectedWrite {
    /// Writes a file. Only what Foundation would do as well is left to it: a write in place without a class.
    static func write(_ data: Data, to url: URL, options: Data.WritingOptions) throws {
        let wanted = try options.protectionClass
        let plain = Data.WritingOptions(rawValue: options.rawValue & ~Data.WritingOptions.fileProtectionMask.rawValue)
        let isAtomic = options.contains(.atomic)
        let replacing = !options.contains(.withoutOverwriting)
        if wanted == nil, !isAtomic { return try explaining { try Plain.write(data, to: url, options: plain) } }
        if !isAtomic, replacing, url.isFileURL, let target = Dangling.target(of: url.path) {
            return try write(data, to: URL(fileURLWithPath: target), options: options)
        }
        guard url.isFileURL, let path = place(of: url.path, isNew: isAtomic || !replacing, replacing: replacing) else {
            if wanted != nil { try FileProtection.refuseOrGoOn(url.isFileURL ? url.path : url.absoluteString) }
            return try Plain.write(data, to: url, options: plain)
        }
        do throws(ProtectionSystemError) {
            try write(data, to: path, class: wanted, atomic: isAtomic, replacing: replacing)
        } catch {
            throw error.refusal(isAtomic ? .replace : .write, path, class: wanted)
        }
    }

    /// Where a protected mount takes what is written to a path; nil where none does.
    ///
    /// A new file takes the place of a link, as Foundation's does. Where that place is outside, but the link leads to a file
    /// in a mount, it takes that file's place instead.
    static func place(of path: String, isNew: Bool, replacing: Bool) -> String? {
        let isInside = ProtectedMount.holdingEntry(path) != nil
        if isInside, isNew { return path }
        guard replacing, ProtectedMount.holding(path) != nil else { return nil }
        return isInside ? path : Existing(path)?.path
    }

    private static func write(
        _ data: Data, to path: String, class wanted: FileProtectionType?, atomic: Bool, replacing: Bool
    ) throws(ProtectionSystemError) {
        guard replacing, let old = Existing(path) else {
            return try stage(data, at: path, class: wanted, mode: 0o666, replacing: replacing, durable: atomic)
        }
        guard old.mode & S_IFMT != S_IFDIR else { throw ProtectionSystemError(code: EISDIR, call: "open") }
        if atomic { return try stage(data, at: path, class: wanted ?? old.type, like: old, explicit: wanted != nil) }
        // In place: whoever may not open the file now may not write it.
        let file = unsafe open(path, O_WRONLY | O_CLOEXEC)
        guard file >= 0 else { throw .last("open") }
        defer { close(file) }
        if let wanted, old.mode & S_IFMT == S_IFREG {
            if old.type != wanted, old.links == 1 {
                // Another class, another file key: an old copy of the header must not open the new content.
                do throws(ProtectionSystemError) {
                    return try stage(data, at: old.path, class: wanted, like: old)
                } catch {
                    // In a directory that is not writable only the file itself can be; what it held gets no weaker class.
                    guard error.code == EACCES, error.call == "mkdir", wanted.isAsStrong(as: old.type) else {
                        throw error
                    }
                }
            }
            // Several names: they have to stay one file.
            try ProtectionAttribute.set(wanted, file)
        }
        guard ftruncate(file, 0) == 0 else { throw .last("ftruncate") }
        try fill(file, with: data)
    }

    private static func stage(
        _ data: Data, at path: String, class type: FileProtectionType?, like old: Existing? = nil, mode: mode_t = 0o600,
        replacing: Bool = true, explicit: Bool = true, durable: Bool = true
    ) throws(ProtectionSystemError) {
        let staging = try Staging(beside: path, class: type)
        defer { staging.remove() }
        let file = try staging.create(mode: mode)
        defer { close(file) }
        if let type, explicit { try ProtectionAttribute.set(type, file) }
        try fill(file, with: data)
        if let old {
            // Only root may give a file away; for others it is theirs from now on, as with every save by rename.
            _ = fchown(file, old.owner, old.group)
            guard fchmod(file, old.mode & 0o7777) == 0 else { throw .last("fchmod") }
        }
        // Else a power cut after the rename could leave neither the old content nor the new.
        if durable, fsync(file) != 0 { throw .last("fsync") }
        try staging.commit(to: path, replacing: replacing)
    }

    /// Writes all bytes.
    static func fill(_ file: Int32, with data: Data) throws(ProtectionSystemError) {
        var done = 0
        while done < data.count {
            let count = unsafe data.withUnsafeBytes { bytes in
                unsafe Glibc.write(file, bytes.baseAddress?.advanced(by: done), min(bytes.count - done, 1 << 24))
            }
            if count > 0 { done += count } else if errno != EINTR { throw .last("write") }
        }
    }
}

/// A file that is there before the write.
struct Existing {
    /// Its own path, links followed.
    let path: String
    let mode: mode_t
    let owner: uid_t
    let group: gid_t
    let links: UInt64
    let type: FileProtectionType?

    init?(_ path: String) {
        var status = stat()
        guard unsafe stat(path, &status) == 0 else { return nil }
        // Not Foundation's way, which takes `..` behind a link by its text.
        guard let real = unsafe realpath(path, nil) else { return nil }
        defer { unsafe free(real) }
        self.path = unsafe String(cString: real)
        mode = status.st_mode
        owner = status.st_uid
        group = status.st_gid
        links = UInt64(status.st_nlink)
        type = (try? ProtectionAttribute.get(path)).flatMap { $0 }
    }
}

/// A symbolic link to what is not there: written through, it makes that.
private enum Dangling {
    /// Where the last of a chain of links leads; nil where it is there, or where the path is no link.
    static func target(of path: String) -> String? {
        var status = stat()
        guard unsafe stat(path, &status) != 0, errno == ENOENT else { return nil }
        var place = path
        // ELOOP has been told from ENOENT: the chain ends.
        while let next = try? Foundation.FileManager.default.destinationOfSymbolicLink(atPath: place) {
            let parent = (place as NSString).deletingLastPathComponent
            place = next.hasPrefix("/") || parent.isEmpty ? next : parent + "/" + next
        }
        return place == path ? nil : place
    }
}

extension FileProtectionType {
    /// Whether nothing that the other class closes is open in this one.
    func isAsStrong(as other: FileProtectionType?) -> Bool {
        guard let own = protectionClass, let other = other?.protectionClass else { return false }
        return !other.isStronger(than: own)
    }
}

extension Data.WritingOptions {
    /// The class that the options name. They are numbers in one field of bits, not bits: `contains` does not tell them apart.
    var protectionClass: FileProtectionType? {
        get throws(FileProtectionError) {
            let field = rawValue & Data.WritingOptions.fileProtectionMask.rawValue
            switch field {
            case 0: return nil
            case Data.WritingOptions.noFileProtection.rawValue: return FileProtectionType.none
            case Data.WritingOptions.completeFileProtection.rawValue: return .complete
            case Data.WritingOptions.completeFileProtectionUnlessOpen.rawValue: return .completeUnlessOpen
            case Data.WritingOptions.completeFileProtectionUntilFirstUserAuthentication.rawValue:
                return .completeUntilFirstUserAuthentication
            default: throw .unknownClass(value: "writing option 0x" + String(field, radix: 16))
            }
        }
    }
}
