// FileManager's directory for an item that is about to replace another one. It is on the same file system and has the
// class of the item that is replaced.

import CLibrary
import VolumeFormat

enum ItemReplacement {
    /// Makes a directory for a replacement of the item at a URL, which need not exist.
    static func directory(
        for reference: URL?, in domain: FileManager.SearchPathDomainMask
    ) throws -> URL {
        // Foundation on Linux ends the process for these two.
        guard domain == .userDomainMask, let reference else { throw CocoaError(.fileReadUnknown) }
        guard reference.isFileURL else {
            throw CocoaError(.fileReadUnsupportedScheme, userInfo: [NSURLErrorKey: reference])
        }
        return try directory(for: reference.path)
    }

    /// Makes a directory for a replacement of the item at a path, which need not exist.
    static func directory(for path: String) throws -> URL {
        let (place, device) = try existing(path)
        let type: FileProtectionType?
        do throws(ProtectionSystemError) { type = try wanted(path, at: place) } catch {
            throw CocoaError.of(error.code, .read, path)
        }
        let made = try make(for: path, at: place, on: device)
        guard let type else { return made }
        do throws(ProtectionSystemError) { try ProtectionAttribute.set(type, made.path) } catch {
            unsafe rmdir(made.path)
            throw CocoaError.of(error.code, .write, made.path, class: type)
        }
        return made
    }

    /// The nearest item of a path that exists, and the number of its file system.
    private static func existing(_ path: String) throws -> (String, dev_t) {
        var place = path
        var status = stat()
        while unsafe stat(place, &status) != 0 {
            let code = errno
            guard let (parent, _) = ProtectedMount.split(place) else { throw CocoaError.of(code, .read, path) }
            place = parent
        }
        return (place, status.st_dev)
    }

    /// The class for files of the new directory; nil outside a protected mount.
    private static func wanted(_ path: String, at place: String) throws(ProtectionSystemError) -> FileProtectionType? {
        guard let mount = ProtectedMount.holding(place) else { return nil }
        return try ProtectionAttribute.get(place) ?? LockedPath.inherited(place, mount)
    }

    /// Makes the directory in the temporary directory. If that is on another file system, makes it beside the item,
    /// with a hidden name.
    private static func make(for path: String, at place: String, on device: dev_t) throws -> URL {
        let temporary = FileManager.default.temporaryDirectory.path
        let name = "NSIRD_" + ProcessInfo.processInfo.processName.replacingOccurrences(of: "/", with: "_")
        var status = stat()
        if unsafe stat(temporary, &status) == 0, status.st_dev == device, let made = unique(temporary, name) {
            return made
        }
        let beside = place == path ? ProtectedMount.split(place)?.parent ?? place : place
        var failure = ENOENT
        // The directory around a mount's root is on another file system. So is the one around a directory that is
        // itself a mount point.
        for candidate in [beside, place] {
            guard unsafe stat(candidate, &status) == 0, status.st_dev == device, status.st_mode & S_IFMT == S_IFDIR
            else { continue }
            if let made = unique(candidate, "." + name) { return made }
            failure = errno
        }
        throw CocoaError.of(failure, .replace, beside)
    }

    /// A new directory of mode 0700 with a name that nothing else has; nil if none can be made, with the cause in errno.
    private static func unique(_ parent: String, _ name: String) -> URL? {
        var template = Array((parent + "/" + name + "_XXXXXX").utf8CString)
        guard unsafe mkdtemp(&template) != nil else { return nil }
        let path = String(decoding: template.dropLast().map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return URL(fileURLWithPath: path, isDirectory: true)
    }
}
