// A directory of the host's file system, held by a descriptor. Its entries are never accessed by path.

import CLibrary
import CLinuxShim
public import HostSystem
import Synchronization

/// An open directory of the host.
public final class HostDirectory: BackingDirectory, @unchecked Sendable {
    let host: HostObject
    /// The use that the quota counts for files that are opened by name.
    private let fileUse: DescriptorQuota.Use
    /// `f_type` of the directory's file system, which never changes; 0 if it was not asked for yet.
    private let knownType = Atomic<Int64>(0)

    init(_ host: HostObject, fileUse: DescriptorQuota.Use = .file) {
        self.host = host
        self.fileUse = fileUse
        super.init(host)
    }

    private static let flags = O_RDONLY | O_NONBLOCK | pfs_O_DIRECTORY | pfs_O_NOFOLLOW | O_CLOEXEC

    /// A path that leads to this directory for as long as it is open here, for calls that take no descriptor.
    package var place: String { host.magicPath }

    /// Opens a directory by the path that the user typed. Only this call follows symlinks.
    public static func open(path: String) throws(Errno) -> HostDirectory {
        let flags = flags & ~pfs_O_NOFOLLOW
        return HostDirectory(HostObject(taking: try retrying { unsafe CLibrary.open(path, flags) }))
    }

    /// The same directory with a quota. `quota` counts everything that is opened through it.
    public func limited(by quota: DescriptorQuota) throws(Errno) -> HostDirectory {
        let number = try quota.opening(.passing) { () throws(Errno) in
            try openBeneath(dot, Self.flags, permission: 0o500)
        }
        return HostDirectory(HostObject(taking: number, quota: quota))
    }

    public override func reserved() throws(Errno) -> BackingDirectory {
        HostDirectory(try open(dot, Self.flags, permission: 0o500), fileUse: .reserve)
    }

    public override func whenShort(_ reclaim: @escaping @Sendable () -> Void) {
        host.quota?.whenShort(reclaim)
    }

    public override var isShort: Bool { host.quota?.isShort ?? false }

    // MARK: The directory itself

    private var type: StoreType {
        let known = knownType.load(ordering: .relaxed)
        if known != 0 { return StoreType(number: known) }
        let type = StoreType(of: host)
        if type.number > 0 { knownType.store(type.number, ordering: .relaxed) }
        return type
    }

    public override var keepsOrder: Bool { type.keepsOrder }

    public override var keepsNewLinks: Bool { type.keepsNewLinks }

    public override var listsAllAttributes: Bool {
        // The capability counts in the first user namespace, which maps every number.
        guard Credentials(of: getpid())?.has(.administrate) ?? false,
            let map = try? readFile(HostPath("/proc/self/uid_map"))
        else { return false }
        return String(decoding: map, as: UTF8.self).contains("4294967295")
    }

    public override var keepsIdentity: Bool { type.keepsIdentity }

    public override var syncsWhole: Bool { type.syncsWhole }

    public override func synchronize() throws(Errno) {
        do throws(Errno) { _ = try retrying { fsync(host.number) } } catch {
            // The file system has no fsync(2) for directories.
            if error != .EINVAL { throw error }
        }
    }

    public override func synchronizeStore() throws(Errno) {
        _ = try retryingShim { pfs_syncfs(host.number) }
        // A file system that an error has made read-only, such as Btrfs, reports success even if it has lost data.
        var result = statvfs()
        _ = try retrying { unsafe fstatvfs(host.number, &result) }
        if result.f_flag & UInt(ST_RDONLY) != 0 { throw .EROFS }
    }

    public override func statistics() throws(Errno) -> StoreStatistics {
        var result = statvfs()
        _ = try retrying { unsafe fstatvfs(host.number, &result) }
        return StoreStatistics(
            blockSize: UInt64(result.f_bsize), fragmentSize: UInt64(result.f_frsize), blocks: UInt64(result.f_blocks),
            blocksFree: UInt64(result.f_bfree), blocksAvailable: UInt64(result.f_bavail),
            files: UInt64(result.f_files), filesFree: UInt64(result.f_ffree), nameLength: UInt64(result.f_namemax))
    }

    public override func lock(exclusive: Bool) throws(Errno) {
        _ = try retrying { flock(host.number, (exclusive ? LOCK_EX : LOCK_SH) | LOCK_NB) }
    }

    // MARK: Opening

    public override func reopen() throws(Errno) -> BackingDirectory {
        HostDirectory(try open(dot, Self.flags, permission: 0o500))
    }

    public override func openDirectory(_ name: EntryName) throws(Errno) -> BackingDirectory {
        do throws(Errno) {
            return HostDirectory(try open(name.terminated, Self.flags))
        } catch {
            guard error == .EACCES else { throw error }
            return try object(name).withOwnerAccess(0o500) { () throws(Errno) in
                HostDirectory(try open(name.terminated, Self.flags))
            }
        }
    }

    public override func openFile(_ name: EntryName, _ access: FileAccess) throws(Errno) -> BackingFile {
        try openFile(name, access, known: nil)
    }

    public override func openFile(
        _ name: EntryName, _ access: FileAccess, seen status: Status
    ) throws(Errno) -> BackingFile {
        try openFile(name, access, known: status)
    }

    private func openFile(_ name: EntryName, _ access: FileAccess, known: Status?) throws(Errno) -> BackingFile {
        do throws(Errno) {
            let file = try leavingAccessTime { (noTime) throws(Errno) in
                try open(name.terminated, access.flags | pfs_O_NOFOLLOW | noTime, for: fileUse)
            }
            let status = if let known { known } else { StoredTime.shown(try file.status(), of: file) }
            try checkIsFile(status.kind)
            return HostFile(file, opened: status)
        } catch {
            if error == .EPERM, access == .readWrite { return try openImmutable(name) }
            guard error == .EACCES else { throw error }
            return try object(name).openFile(access)
        }
    }

    /// Opens an immutable file for the handles that only read and share it. The kernel refuses writes to it all the same.
    private func openImmutable(_ name: EntryName) throws(Errno) -> BackingFile {
        let reader = try open(name.terminated, FileAccess.readOnly.flags | pfs_O_NOFOLLOW, for: fileUse)
        return try reader.withoutImmutable { () throws(Errno) in
            HostFile(try open(name.terminated, FileAccess.readWrite.flags | pfs_O_NOFOLLOW, for: fileUse))
        }
    }

    public override func createFile(_ name: EntryName, mode: UInt32) throws(Errno) -> BackingFile {
        let flags = FileAccess.readWrite.flags | O_CREAT | O_EXCL | pfs_O_NOFOLLOW | pfs_O_NOATIME
        return try writing { () throws(Errno) in
            HostFile(try open(name.terminated, flags, for: fileUse, mode: mode & 0o7777))
        }
    }

    public override func createNamelessFile(mode: UInt32) throws(Errno) -> BackingFile {
        try writing { () throws(Errno) in
            HostFile(try open(dot, FileAccess.readWrite.flags | pfs_O_TMPFILE, for: fileUse, mode: mode & 0o7777))
        }
    }

    public override func node(_ name: EntryName) throws(Errno) -> BackingNode {
        BackingNode(try object(name))
    }

    /// An entry's object, without opening it.
    private func object(_ name: EntryName) throws(Errno) -> HostObject {
        try open(name.terminated, pfs_O_PATH | pfs_O_NOFOLLOW | O_CLOEXEC, isPath: true)
    }

    private func open(
        _ name: [UInt8], _ flags: Int32, for use: DescriptorQuota.Use = .passing, mode: UInt32 = 0,
        isPath: Bool = false, permission: UInt32 = 0o100
    ) throws(Errno) -> HostObject {
        let number = try host.counting(use) { () throws(Errno) in
            try openBeneath(name, flags, mode: mode, permission: permission)
        }
        return HostObject(taking: number, isPath: isPath, quota: host.quota, access: host.access)
    }

    private func openBeneath(
        _ name: [UInt8], _ flags: Int32, mode: UInt32 = 0, permission: UInt32
    ) throws(Errno) -> Int32 {
        try host.withOwnerAccess(permission) { () throws(Errno) in
            try retryingShim {
                unsafe withCString(name) { unsafe pfs_open_beneath(host.number, $0, flags, mode) }
            }
        }
    }

    /// Runs a call that changes the directory's entries.
    private func writing<Result>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
        try host.withOwnerAccess(0o300, body)
    }

    public override func list(from cookie: UInt64, _ body: (ListedObject, UInt64) -> Bool) throws(Errno) {
        // The listing needs its own descriptor, because the descriptor's offset is the position in the listing.
        let listing = try leavingAccessTime { (noTime) throws(Errno) in
            try open(dot, Self.flags | noTime, permission: 0o500)
        }
        try Self.list(listing, from: cookie, body)
    }

    public override func touchAccessTime() {
        do throws(Errno) {
            try Self.list(try open(dot, Self.flags, permission: 0o500), from: 0) { _, _ in false }
        } catch {
            // The time stays, as on a store that cannot be written.
        }
    }

    // MARK: Entries by name

    public override func status(of name: EntryName) throws(Errno) -> Status {
        let status = try host.withOwnerAccess(0o100) { () throws(Errno) in
            try host.status(of: name.terminated)
        }
        guard status.isMarked else { return status }
        return (try? node(name).status()) ?? status
    }

    // MARK: Changing entries

    public override func createDirectory(_ name: EntryName, mode: UInt32) throws(Errno) {
        try unsafe change(name) { unsafe mkdirat($0, $1, mode) }
    }

    public override func createSymlink(_ name: EntryName, target: [UInt8]) throws(Errno) {
        guard !target.contains(0) else { throw .EINVAL }
        try unsafe change(name) { directory, name in
            unsafe withTerminatedCopy(of: target) { unsafe symlinkat($0, directory, name) }
        }
    }

    public override func readSymlink(_ name: EntryName) throws(Errno) -> [UInt8] {
        var target = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let length = try host.withOwnerAccess(0o100) { () throws(Errno) in
            try retrying {
                unsafe withCString(name.terminated) { name in
                    unsafe target.withUnsafeMutableBytes { buffer in
                        unsafe buffer.baseAddress.map {
                            unsafe readlinkat(
                                host.number, name, $0.assumingMemoryBound(to: CChar.self), buffer.count)
                        } ?? -1
                    }
                }
            }
        }
        return Array(target.prefix(length))
    }

    public override func createSpecial(_ name: EntryName, mode: UInt32, device: UInt64) throws(Errno) {
        try unsafe change(name) { unsafe mknodat($0, $1, mode, dev_t(device)) }
    }

    public override func rename(
        _ name: EntryName, to directory: BackingDirectory, _ newName: EntryName, mode: RenameMode = .replace
    ) throws(Errno) {
        guard let directory = directory as? HostDirectory else { throw .EXDEV }
        let (from, to) = (host.number, directory.host.number)
        try both(directory) { () throws(Errno) in
            try unsafe withCString(name.terminated, newName.terminated) { (name, newName) throws(Errno) in
                if mode == .noReplace {
                    return try unsafe FreeName.rename(name, in: from, to: newName, in: to)
                }
                let flags: UInt32 =
                    switch mode {
                    case .replace, .noReplace: 0
                    case .exchange: pfs_RENAME_EXCHANGE
                    case .whiteout: pfs_RENAME_WHITEOUT
                    case .whiteoutNoReplace: pfs_RENAME_WHITEOUT | pfs_RENAME_NOREPLACE
                    }
                _ = try retryingShim { unsafe pfs_renameat2(from, name, to, newName, flags) }
            }
        }
    }

    public override func link(
        _ name: EntryName, to directory: BackingDirectory, _ newName: EntryName
    ) throws(Errno) {
        guard let directory = directory as? HostDirectory else { throw .EXDEV }
        let (from, to) = (host.number, directory.host.number)
        try host.withOwnerAccess(0o100) { () throws(Errno) in
            try directory.writing { () throws(Errno) in
                try unsafe withCString(name.terminated, newName.terminated) { (name, newName) throws(Errno) in
                    _ = try retrying { unsafe linkat(from, name, to, newName, 0) }
                }
            }
        }
    }

    /// Makes `name` a hard link to a file that was made without a name.
    func add(_ file: HostObject, as name: EntryName) throws(Errno) {
        let path = Array("\(file.magicPath)\0".utf8)
        try unsafe change(name) { directory, name in
            unsafe withCString(path) { unsafe linkat(AT_FDCWD, $0, directory, name, AT_SYMLINK_FOLLOW) }
        }
    }

    public override func unlink(_ name: EntryName) throws(Errno) {
        try unsafe change(name) { unsafe unlinkat($0, $1, 0) }
    }

    public override func removeDirectory(_ name: EntryName) throws(Errno) {
        try unsafe change(name) { unsafe unlinkat($0, $1, AT_REMOVEDIR) }
    }

    private func change(_ name: EntryName, _ call: (Int32, UnsafePointer<CChar>) -> Int32) throws(Errno) {
        try writing { () throws(Errno) in
            _ = try retrying { unsafe withCString(name.terminated) { unsafe call(host.number, $0) } }
        }
    }

    /// The same as `writing`, for a call that changes this directory and another one. The permission may be missing in
    /// one directory or in both. The second attempt keeps this directory's permission while it adds that of the other
    /// one.
    private func both(_ other: HostDirectory, _ body: () throws(Errno) -> Void) throws(Errno) {
        do throws(Errno) {
            try writing(body)
        } catch {
            guard error == .EACCES, other !== self else { throw error }
            try other.writing(body)
        }
    }
}

private let dot: [UInt8] = [UInt8(ascii: "."), 0]

/// Calls `call` with bytes that end with NUL, as a C string that is valid during the call.
func withCString<Number: FixedWidthInteger>(
    _ terminated: [UInt8], _ call: (UnsafePointer<CChar>) -> Number
) -> Number {
    precondition(terminated.last == 0)
    return unsafe terminated.withUnsafeBytes { bytes in
        // CChar and UInt8 have the same layout. The array is not empty, so it has an address.
        unsafe bytes.baseAddress.map { unsafe call($0.assumingMemoryBound(to: CChar.self)) } ?? -1
    }
}

/// The same with bytes that do not end with NUL.
private func withTerminatedCopy<Number: FixedWidthInteger>(
    of bytes: [UInt8], _ call: (UnsafePointer<CChar>) -> Number
) -> Number {
    unsafe withUnsafeTemporaryAllocation(of: CChar.self, capacity: bytes.count + 1) { copy in
        // The room is for all bytes and the NUL, and each is set once.
        for index in bytes.indices { unsafe copy.initializeElement(at: index, to: CChar(bitPattern: bytes[index])) }
        unsafe copy.initializeElement(at: bytes.count, to: 0)
        return unsafe copy.baseAddress.map { unsafe call($0) } ?? -1
    }
}

/// The same as `withCString` with two names, for a call that throws.
private func withCString(
    _ first: [UInt8], _ second: [UInt8], _ call: (UnsafePointer<CChar>, UnsafePointer<CChar>) throws(Errno) -> Void
) throws(Errno) {
    var failure: Errno?
    _ = unsafe withCString(first) { first in
        unsafe withCString(second) { second -> Int32 in
            do throws(Errno) { try unsafe call(first, second) } catch { failure = error }
            return 0
        }
    }
    if let failure { throw failure }
}
