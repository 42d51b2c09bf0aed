// Errors of a locked file: 257 when reading and 513 when writing, with the class that is closed.

import CLibrary
import VolumeFormat

/// A key of an error's `userInfo`. Its value is the closed class that caused the error, a `FileProtectionType`.
public let FileProtectionErrorKey = "FileProtectionClass"

/// How a call uses a path.
enum FileUse {
    case read
    case write
    /// Replacing the file by a new one. The directory must be writable, but not the file.
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
    /// An error in Foundation's form. It names the class if a closed class caused it.
    static func of(
        _ code: Int32, _ use: FileUse, _ path: String, class wanted: FileProtectionType? = nil
    ) -> CocoaError {
        var info: [String: Any] = [
            NSFilePathErrorKey: path, NSURLErrorKey: URL(fileURLWithPath: path),
            NSUnderlyingErrorKey: NSError(domain: NSPOSIXErrorDomain, code: Int(code)),
        ]
        if code == EACCES, let type = LockedPath.type(path, use, wanted: wanted) { info[FileProtectionErrorKey] = type }
        return CocoaError(use.error(code), userInfo: info)
    }
}

/// Finds out whether a path is closed by the volume's lock or by its permissions.
enum LockedPath {
    /// The class that closes the path now; nil if the error has another cause.
    static func type(_ path: String, _ use: FileUse, wanted: FileProtectionType? = nil) -> FileProtectionType? {
        guard let mount = use == .replace ? ProtectedMount.holdingEntry(path) : ProtectedMount.holding(path),
            let now = mount.state, now != .unlocked
        else { return nil }
        let exists = unsafe CLibrary.access(path, F_OK) == 0
        // access(2) depends on permission bits only, in every state of the volume.
        let directory = ProtectedMount.split(path)?.parent ?? path
        let isNew = !exists || use == .replace
        let asked = isNew ? W_OK | X_OK : (use == .read ? R_OK : W_OK)
        guard unsafe CLibrary.access(isNew ? directory : path, asked) == 0 else { return nil }
        let own = exists ? try? ProtectionAttribute.get(path) : nil
        let types = [own, wanted].compactMap { $0 }
        // If the program chose no class for a new file, the class comes from its directory or from the mount's root.
        let chosen = isNew && types.isEmpty ? [inherited(directory, mount)] : types
        return chosen.first { type in
            guard let asked = type.protectionClass, let state = mount.state(of: asked) else { return false }
            return !Access.isAllowed(isNew ? .create : .open, class: asked, state: state)
        }
    }

    /// The class of a new file in a directory.
    static func inherited(_ directory: String, _ mount: ProtectedMount) -> FileProtectionType {
        for place in [directory, mount.path] {
            if let type = (try? ProtectionAttribute.get(place)).flatMap({ $0 }) { return type }
        }
        return FileProtectionType(.volumeDefault)
    }
}

extension Error {
    /// True if the error occurred because the volume is locked, so that an unlock will open the file. False for missing
    /// permissions and other causes. For an error that Foundation made, the answer depends on the volume's state at the
    /// time of the call.
    public var isProtectedDataUnavailable: Bool { protectedClass != nil }

    /// The closed class that caused the error; nil if the lock did not cause it.
    public var protectedClass: FileProtectionType? {
        let error = self as NSError
        if let type = error.userInfo[FileProtectionErrorKey] as? FileProtectionType { return type }
        guard error.domain == NSCocoaErrorDomain, let path = error.userInfo[NSFilePathErrorKey] as? String else {
            return nil
        }
        // Foundation stores a POSIXError here. It casts to Error but not to NSError.
        if let cause = error.userInfo[NSUnderlyingErrorKey] as? any Error, (cause as NSError).code != Int(EACCES) {
            return nil
        }
        switch CocoaError.Code(rawValue: error.code) {
        case .fileReadNoPermission: return LockedPath.type(path, .read)
        case .fileWriteNoPermission: return LockedPath.type(path, .write)
        default: return nil
        }
    }
}

/// Adds the class to an error of Foundation if the lock caused it.
func explaining<Value>(_ body: () throws -> Value) throws -> Value {
    do { return try body() } catch {
        guard let type = error.protectedClass else { throw error }
        let plain = error as NSError
        var info = plain.userInfo
        info[FileProtectionErrorKey] = type
        throw CocoaError(CocoaError.Code(rawValue: plain.code), userInfo: info)
    }
}

/// The errno that an error of Foundation contains, at any depth.
func posixCode(_ error: any Error) -> Int32? {
    var place: (any Error)? = error
    while let error = place {
        let plain = error as NSError
        if plain.domain == NSPOSIXErrorDomain { return Int32(plain.code) }
        place = plain.userInfo[NSUnderlyingErrorKey] as? any Error
    }
    return nil
}

extension ProtectionSystemError {
    /// The error to throw to the program.
    func refusal(_ use: FileUse, _ path: String, class wanted: FileProtectionType? = nil) -> any Error {
        if self == .notProtected { return FileProtectionError.notProtected(path) }
        return CocoaError.of(code, use, path, class: wanted)
    }
}
