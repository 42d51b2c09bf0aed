// Resource values that Foundation on Linux drops in silence, miscounts or lacks: the mark for backups, allocated sizes, two
// capacities, and whether a link is there.

import CLibrary
import CLinuxShim
import HostSystem

extension URLResourceKey {
    /// The key for the room in bytes that a program may fill with what its user asked for. Its value is an `Int64`.
    public static let volumeAvailableCapacityForImportantUsageKey = URLResourceKey(
        rawValue: "NSURLVolumeAvailableCapacityForImportantUsageKey")
    /// The key for the room in bytes that a program may fill with what its user may want. Its value is an `Int64`.
    public static let volumeAvailableCapacityForOpportunisticUsageKey = URLResourceKey(
        rawValue: "NSURLVolumeAvailableCapacityForOpportunisticUsageKey")
}

/// The mark of a file or directory that backups leave out. It is an extended attribute of freedesktop.org.
enum BackupExclusion {
    private static let name = "user.xdg.robots.backup"
    private static let excluded = "false"

    static func get(_ path: String) throws -> Bool {
        do throws(ProtectionSystemError) { return try ProtectionAttribute.text(name, of: path) == excluded } catch {
            throw CocoaError.of(error.code, .read, path)
        }
    }

    /// Sets the mark to the value of a dictionary.
    static func set(_ value: Any, _ path: String) throws {
        guard let isExcluded = value as? Bool ?? (value as? NSNumber)?.boolValue else {
            throw CocoaError.of(EINVAL, .write, path)
        }
        try set(isExcluded, path)
    }

    static func set(_ isExcluded: Bool, _ path: String) throws {
        let value = Array(excluded.utf8)
        let isDone =
            isExcluded
            ? unsafe setxattr(path, name, value, value.count, 0) == 0
            : unsafe removexattr(path, name) == 0 || errno == ENODATA
        guard isDone else { throw CocoaError.of(errno, .write, path) }
    }
}

/// The room that an ordinary user may fill.
enum AvailableCapacity {
    static func of(_ path: String) -> Int64? {
        var status = statvfs()
        guard unsafe statvfs(path, &status) == 0 else { return nil }
        let (bytes, overflows) = UInt64(status.f_bavail).multipliedReportingOverflow(by: UInt64(status.f_frsize))
        return overflows ? Int64.max : Int64(clamping: bytes)
    }
}

/// What a file takes on the disk. Foundation on Linux multiplies its blocks by the wrong size, so caches seem many times too
/// large.
enum AllocatedSize {
    static func of(_ path: String) throws -> Int {
        do throws(SystemError) {
            // stat(2) counts blocks of 512 bytes.
            return try Int(FileStatus.read(HostPath(path)).st_blocks) &* 512
        } catch {
            throw CocoaError.of(error.code, .read, path)
        }
    }
}

extension URL {
    /// Whether the item is there (`URL.checkResourceIsReachable()`). A link is not followed, as on Apple's platforms;
    /// Foundation on Linux follows it.
    ///
    /// - Throws: `CocoaError` 260 if it is not.
    public func checkResourceIsReachable() throws -> Bool {
        guard isFileURL else { throw CocoaError(.fileReadUnsupportedScheme, userInfo: [NSURLErrorKey: self]) }
        var status = stat()
        guard unsafe lstat(path, &status) == 0 else { throw CocoaError.of(errno, .read, path) }
        return true
    }
}
