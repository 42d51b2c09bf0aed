// Files that are opened with a class: Darwin's call, and SQLite's flags for classes.

import CLibrary
import HostSystem

/// Opens a file, and if it makes it, gives it a class before its first byte (Darwin's `open_dprotected_np`).
///
/// - Parameters:
///   - path: the file.
///   - flags: those of open(2).
///   - class: the number of the class, for a new file.
///   - dpflags: 0. Raw reading of encrypted files is not offered.
///   - mode: the permissions of a new file.
/// - Returns: the descriptor, or -1 with errno. Nothing is left if the class cannot be given: EACCES if it is closed, ENOTSUP
///   outside a protected mount, unless `FileProtection.policy` lets the program go on there.
public func open_dprotected_np(
    _ path: String, _ flags: Int32, _ class: Int32, _ dpflags: Int32, _ mode: mode_t = 0
) -> Int32 {
    guard dpflags == 0, let type = DescriptorClass.named(`class`) else { return DescriptorClass.refuse(EINVAL) }
    guard flags & O_CREAT != 0 else { return openFile(path, flags, 0) }
    let isProtected: Bool
    do throws(FileProtectionError) { isProtected = try ProtectedFileManager.protects(path) } catch {
        return DescriptorClass.refuse(ENOTSUP)
    }
    let descriptor = openFile(path, flags | O_EXCL, mode)
    if descriptor < 0, errno == EEXIST, flags & O_EXCL == 0 {
        return openFile(path, flags & ~O_CREAT, 0)
    }
    guard descriptor >= 0, isProtected else { return descriptor }
    do throws(ProtectionSystemError) { try ProtectionAttribute.set(type, descriptor) } catch {
        close(descriptor)
        try? FileChange.removeFile(HostPath(path))
        return DescriptorClass.refuse(error.code)
    }
    return descriptor
}

private func openFile(_ path: String, _ flags: Int32, _ mode: mode_t) -> Int32 {
    unsafe CLibrary.open(path, flags, mode)
}

// MARK: SQLite

/// SQLite's flag for class `complete`.
public let SQLITE_OPEN_FILEPROTECTION_COMPLETE: Int32 = 0x0010_0000
/// SQLite's flag for class `completeUnlessOpen`.
public let SQLITE_OPEN_FILEPROTECTION_COMPLETEUNLESSOPEN: Int32 = 0x0020_0000
/// SQLite's flag for class `completeUntilFirstUserAuthentication`.
public let SQLITE_OPEN_FILEPROTECTION_COMPLETEUNTILFIRSTUSERAUTHENTICATION: Int32 = 0x0030_0000
/// SQLite's flag for class `none`.
public let SQLITE_OPEN_FILEPROTECTION_NONE: Int32 = 0x0040_0000
/// The bits of these flags.
public let SQLITE_OPEN_FILEPROTECTION_MASK: Int32 = 0x0070_0000

extension FileProtection {
    /// Makes the file of a database with the class that SQLite's flags name, and gives the flags for `sqlite3_open_v2`. SQLite
    /// takes an empty file for a new database. Its journals beside it take the stronger one of this class and of the directory's:
    /// for class `none` the directory needs it, too.
    ///
    /// - Parameters:
    ///   - path: the database. A file that is there keeps its class.
    ///   - flags: SQLite's. Without a class nothing is made. Without `SQLITE_OPEN_CREATE` neither.
    /// - Throws: `CocoaError` 513 if the class is closed, `FileProtectionError.notProtected` outside a protected mount if the
    ///   policy requires one, and `FileProtectionError.unknownClass` for other bits of the mask.
    public static func prepareDatabase(at path: String, flags: Int32) throws -> Int32 {
        let plain = flags & ~SQLITE_OPEN_FILEPROTECTION_MASK
        let wanted = (flags & SQLITE_OPEN_FILEPROTECTION_MASK) >> 20
        // SQLITE_OPEN_CREATE
        guard wanted != 0, flags & 4 != 0 else { return plain }
        guard wanted <= 4, let type = DescriptorClass.named(wanted) else {
            throw FileProtectionError.unknownClass(value: "\(wanted)")
        }
        guard try ProtectedFileManager.protects(path) else { return plain }
        // The permissions that SQLite gives.
        let descriptor = open_dprotected_np(path, O_RDWR | O_CREAT, wanted, 0, 0o644)
        guard descriptor >= 0 else {
            let code = errno
            // SQLite says best why a file that is there cannot be opened.
            if ProtectedFileManager.default.fileExists(atPath: path) { return plain }
            throw CocoaError.of(code, .write, path, class: type)
        }
        close(descriptor)
        return plain
    }
}
