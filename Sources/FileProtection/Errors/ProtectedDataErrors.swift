// Errors of a locked file: 257 when reading, 513 when writing, with what a program needs to tell why.

import Glibc

/// Key of an error's `userInfo`: the class (a `FileProtectionType`) that refused.
public let FileProtectionErrorKey = "FileProtectionClass"

/// What a call was about to do to a path.
enum Access {
    case read
    case write

    func error(_ code: Int32) -> CocoaError.Code {
        switch (self, code) {
        case (.read, ENOENT): .fileReadNoSuchFile
        case (.write, ENOENT): .fileNoSuchFile
        case (.read, EACCES), (.read, EPERM): .fileReadNoPermission
        case (.write, EACCES), (.write, EPERM): .fileWriteNoPermission
        case (.write, EROFS): .fileWriteVolumeReadOnly
        case (.write, ENOSPC), (.write, EDQUOT): .fileWriteOutOfSpace
        case (.write, EEXIST): .fileWriteFileExists
        case (.read, ENAMETOOLONG): .fileReadInvalidFileName
        case (.write, ENAMETOOLONG): .fileWriteInvalidFileName
        case (.read, _): .fileReadUnknown
        case (.write, _): .fileWriteUnknown
        }
    }
}

extension CocoaError {
    /// An error as Foundation makes them, with the class where it is the class that refused.
    static func of(
        _ code: Int32, _ access: Access, _ path: String, class wanted: FileProtectionType? = nil
    ) -> CocoaError {
        var info: [String: Any] = [
            NSFilePathErrorKey: path, NSURLErrorKey: URL(fileURLWithPath: path),
            NSUnderlyingErrorKey: NSError(domain: NSPOSIXErrorDomain, code: Int(code)),
        ]
        if code == EACCES, let type = Closed.type(path, access, wanted: wanted) { info[FileProtectionErrorKey] = type }
        return CocoaError(access.error(code), userInfo: info)
    }
}

/// Whether it is the volume's lock that closes a path, and not its permissions.
enum Closed {
    /// The class that closes the path now; nil where something else must have refused.
    static func type(_ path: String, _ access: Access, wanted: FileProtectionType? = nil) -> FileProtectionType? {
        guard let mount = ProtectedMount.holding(path),
            let state = try? ProtectionAttribute.text(ProtectionAttribute.stateName, of: mount.path),
            state != "unlocked"
        else { return nil }
        let exists = unsafe Glibc.access(path, F_OK) == 0
        // access(2) answers by permission bits alone, in every state of the volume.
        let directory = (path as NSString).deletingLastPathComponent
        let asked = exists ? (access == .read ? R_OK : W_OK) : W_OK | X_OK
        guard unsafe Glibc.access(exists ? path : directory, asked) == 0 else { return nil }
        let own = exists ? try? ProtectionAttribute.get(path) : nil
        let inherited = exists ? nil : try? ProtectionAttribute.get(directory)
        // A new file without any default in sight has the mount's, which is C unless somebody chose another.
        let types =
            [own, wanted, inherited].compactMap { $0 } + (exists ? [] : [.completeUntilFirstUserAuthentication])
        return types.first { closes($0, state, new: !exists) }
    }

    private static func closes(_ type: FileProtectionType, _ state: String, new: Bool) -> Bool {
        type == .complete || (type == .completeUnlessOpen && !new)
            || (type == .completeUntilFirstUserAuthentication && state == "before-first-unlock")
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
