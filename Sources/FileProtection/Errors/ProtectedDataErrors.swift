// Errors of a locked file: 257 when reading, 513 when writing, with what a program needs to tell why.

import Glibc
import VolumeFormat

/// Key of an error's `userInfo`: the class (a `FileProtectionType`) that refused.
public let FileProtectionErrorKey = "FileProtectionClass"

/// What a call was about to do to a path.
enum FileUse {
    case read
    case write
    /// Putting a new file in the place of whatever is there: the directory has to be writable, not the file.
    case replace

    func error(_ code: Int32) -> CocoaError.Code {
        switch (self, code) {
        case (.read, ENOENT): .fileReadNoSuchFile
        case (_, ENOENT): .fileNoSuchFile
        case (.read, EACCES), (.read, EPERM): .fileReadNoPermission
        case (_, EACCES), (_, EPERM): .fileWriteNoPermission
        case (.read, ENAMETOOLONG): .fileReadInvalidFileName
        case (.read, _): .fileReadUnknown
        case (_, EROFS): .fileWriteVolumeReadOnly
        case (_, ENOSPC), (_, EDQUOT): .fileWriteOutOfSpace
        case (_, EEXIST): .fileWriteFileExists
        case (_, ENAMETOOLONG): .fileWriteInvalidFileName
        case (_, _): .fileWriteUnknown
        }
    }
}

extension CocoaError {
    /// An error as Foundation makes them, with the class where it is the class that refused.
    static func of(
        _ code: Int32, _ use: FileUse, _ path: String, class wanted: FileProtectionType? = nil
    ) -> CocoaError {
        var info: [String: Any] = [
            NSFilePathErrorKey: path, NSURLErrorKey: URL(fileURLWithPath: path),
            NSUnderlyingErrorKey: NSError(domain: NSPOSIXErrorDomain, code: Int(code)),
        ]
        if code == EACCES, let type = Closed.type(path, use, wanted: wanted) { info[FileProtectionErrorKey] = type }
        return CocoaError(use.error(code), userInfo: info)
    }
}

/// Whether it is the volume's lock that closes a path, and not its permissions.
enum Closed {
    /// The class that closes the path now; nil where something else must have refused.
    static func type(_ path: String, _ use: FileUse, wanted: FileProtectionType? = nil) -> FileProtectionType? {
        guard let mount = use == .replace ? ProtectedMount.holdingEntry(path) : ProtectedMount.holding(path),
            let state = mount.state, state != .unlocked
        else { return nil }
        let exists = unsafe Glibc.access(path, F_OK) == 0
        // access(2) answers by permission bits alone, in every state of the volume.
        let directory = ProtectedMount.split(path)?.parent ?? path
        let isNew = !exists || use == .replace
        let asked = isNew ? W_OK | X_OK : (use == .read ? R_OK : W_OK)
        guard unsafe Glibc.access(isNew ? directory : path, asked) == 0 else { return nil }
        let own = exists ? try? ProtectionAttribute.get(path) : nil
        let types = [own, wanted].compactMap { $0 }
        // Of a new file nobody chose the class: then its directory did, or the mount's root, or nobody.
        let chosen = isNew && types.isEmpty ? [inherited(directory, mount)] : types
        return chosen.first { type in
            guard let asked = type.protectionClass else { return false }
            return !Access.isAllowed(isNew ? .create : .open, class: asked, state: state)
        }
    }

    private static func inherited(_ directory: String, _ mount: ProtectedMount) -> FileProtectionType {
        for place in [directory, mount.path] {
            if let type = (try? ProtectionAttribute.get(place)).flatMap({ $0 }) { return type }
        }
        return FileProtectionType(.volumeDefault)
    }
}

extension Error {
    /// True where a file is closed because its volume is locked, and will open at an unlock: not for a problem of permissions,
    /// nor for anything else. Foundation's own errors are judged by the state at the time of asking.
    public var isProtectedDataUnavailable: Bool { protectedClass != nil }

    /// The class that refused; nil where it was not the lock that refused.
    public var protectedClass: FileProtectionType? {
        let error = self as NSError
        if let type = error.userInfo[FileProtectionErrorKey] as? FileProtectionType { return type }
        guard error.domain == NSCocoaErrorDomain, let path = error.userInfo[NSFilePathErrorKey] as? String else {
            return nil
        }
        // Foundation stores a POSIXError here, which casts to Error but not to NSError.
        if let cause = error.userInfo[NSUnderlyingErrorKey] as? any Error, (cause as NSError).code != Int(EACCES) {
            return nil
        }
        switch CocoaError.Code(rawValue: error.code) {
        case .fileReadNoPermission: return Closed.type(path, .read)
        case .fileWriteNoPermission: return Closed.type(path, .write)
        default: return nil
        }
    }
}

/// Adds the class to an error of Foundation's, when it is the lock that refused.
func explaining<Value>(_ body: () throws -> Value) throws -> Value {
    do { return try body() } catch {
        guard let type = error.protectedClass else { throw error }
        let plain = error as NSError
        var info = plain.userInfo
        info[FileProtectionErrorKey] = type
        throw CocoaError(CocoaError.Code(rawValue: plain.code), userInfo: info)
    }
}
