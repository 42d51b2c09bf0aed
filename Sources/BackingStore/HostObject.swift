// An object of the host, held by its descriptor, with the calls that every kind of object has.

import CLibrary
import CLinuxShim
package import HostSystem

/// Repeats a call while it fails with EINTR. The call returns -1 and sets errno on failure.
func retrying<Number: FixedWidthInteger>(_ call: () -> Number) throws(Errno) -> Number {
    while true {
        let result = call()
        if result != -1 { return result }
        let error = Errno.last
        if error != .EINTR { throw error }
    }
}

/// Repeats a `pfs_` call while it fails with EINTR. The call returns -errno on failure.
func retryingShim<Number: FixedWidthInteger & SignedInteger>(_ call: () -> Number) throws(Errno) -> Number {
    while true {
        let result = call()
        if result >= 0 { return result }
        let error = Errno(rawValue: Int32(-result))
        if error != .EINTR { throw error }
    }
}

/// An object of the host, held by a descriptor.
final class HostObject: BackingObject, @unchecked Sendable {
    /// The descriptor's number, valid as long as this object lives.
    let number: Int32
    /// Whether it was opened with O_PATH, and so can neither read nor write the object.
    let isPath: Bool
    /// The quota that counts this descriptor and those opened through it.
    let quota: DescriptorQuota?
    /// Under which raised modes of this object and of those opened through it are kept.
    let access: OwnerAccess
    /// The owned descriptor; nil only in `deinit`.
    private var descriptor: Descriptor?

    /// Takes over an open descriptor.
    init(taking number: Int32, isPath: Bool = false, quota: DescriptorQuota? = nil, access: OwnerAccess = .store) {
        self.number = number
        self.isPath = isPath
        self.quota = quota
        self.access = access
        descriptor = Descriptor(taking: number)
        super.init()
    }

    deinit {
        // The descriptor is closed before the quota allows another one.
        descriptor = nil
        quota?.giveBack()
    }

    /// Runs `body`, which opens a descriptor, if the quota allows it.
    func counting(_ use: DescriptorQuota.Use, _ body: () throws(Errno) -> Int32) throws(Errno) -> Int32 {
        guard let quota else { return try body() }
        return try quota.opening(use, body)
    }

    /// A path to the object, for calls without an `*at` form. The kernel follows this link to the object itself, even
    /// if that is a symlink, and no further (proc_pid_fd(5)).
    var magicPath: String { "/proc/self/fd/\(number)" }

    override func status() throws(Errno) -> Status {
        try status(of: [0])
    }

    /// The status of an entry of this directory; of the object itself if the name is empty. `name` ends in a zero byte.
    func status(of name: [UInt8]) throws(Errno) -> Status {
        try access.reading { () throws(Errno) in
            var result = pfs_status()
            _ = try retryingShim { unsafe withCString(name) { unsafe pfs_status(number, $0, &result) } }
            return Status(result)
        }
    }

    override func setMode(_ mode: UInt32) throws(Errno) {
        try access.changing { () throws(Errno) in try setModeNow(mode) }
    }

    private func setModeNow(_ mode: UInt32) throws(Errno) {
        guard isPath else {
            _ = try retrying { fchmod(number, mode) }
            return
        }
        do throws(Errno) {
            _ = try retryingShim { unsafe pfs_fchmodat2(number, "", mode, pfs_AT_EMPTY_PATH) }
        } catch {
            guard error == .ENOSYS else { throw error }
            _ = try retrying { unsafe chmod(magicPath, mode) }
        }
    }

    override func setOwner(_ owner: UInt32?, group: UInt32?) throws(Errno) {
        _ = try retrying { unsafe fchownat(number, "", owner ?? .max, group ?? .max, pfs_AT_EMPTY_PATH) }
    }

    override func setTimes(accessed: TimeChange, modified: TimeChange) throws(Errno) {
        let times = [timespec(accessed), timespec(modified)]
        guard isPath else {
            _ = try retrying { unsafe futimens(number, times) }
            return
        }
        _ = try retrying { unsafe utimensat(number, "", times, pfs_AT_EMPTY_PATH) }
    }

    override func attribute(_ name: [UInt8]) throws(Errno) -> [UInt8] {
        // An ACL is a part of the mode.
        guard name.starts(with: "system.".utf8) else { return try attributeNow(name) }
        return try access.reading { () throws(Errno) in try attributeNow(name) }
    }

    private func attributeNow(_ name: [UInt8]) throws(Errno) -> [UInt8] {
        try withOwnerAccess(0o400) { () throws(Errno) in
            try unsafe growing { (value: UnsafeMutableRawPointer, room: Int) in
                unsafe withName(name) { name in
                    unsafe isPath ? getxattr(magicPath, name, value, room) : fgetxattr(number, name, value, room)
                }
            }
        }
    }

    override func flags() throws(Errno) -> InodeFlags {
        InodeFlags(rawValue: UInt32(truncatingIfNeeded: try retryingShim { pfs_inode_flags(number) }))
    }

    override func setFlags(_ flags: InodeFlags) throws(Errno) {
        try flagChanges.withLock { (_) throws(Errno) in try setFlagsNow(flags) }
    }

    /// Runs `body` while the object is not immutable.
    /// - Throws: EPERM if it was not immutable before.
    func withoutImmutable<Result>(_ body: () throws(Errno) -> Result) throws(Errno) -> Result {
        try flagChanges.withLock { (_) throws(Errno) in
            let flags = try self.flags().intersection(.settable)
            guard flags.contains(.immutable) else { throw .EPERM }
            try setFlagsNow(flags.subtracting(.immutable))
            defer { try? setFlagsNow(flags) }
            return try body()
        }
    }

    private func setFlagsNow(_ flags: InodeFlags) throws(Errno) {
        let others = try self.flags().subtracting(.settable)
        _ = try retryingShim { pfs_set_inode_flags(number, others.union(flags).rawValue) }
    }

    override func attributeNames() throws(Errno) -> [[UInt8]] {
        let list = try unsafe growing { (list: UnsafeMutableRawPointer, room: Int) in
            let list = unsafe list.assumingMemoryBound(to: CChar.self)
            return unsafe isPath ? listxattr(magicPath, list, room) : flistxattr(number, list, room)
        }
        return list.split(separator: 0).map(Array.init)
    }

    override func setAttribute(_ name: [UInt8], _ value: [UInt8], mode: AttributeMode) throws(Errno) {
        let flags: Int32 =
            switch mode {
            case .set: 0
            case .create: Int32(XATTR_CREATE)
            case .replace: Int32(XATTR_REPLACE)
            }
        // An ACL is a part of the mode.
        try access.changing(if: name.starts(with: "system.".utf8)) { () throws(Errno) in
            try setAttributeNow(name, value, flags)
        }
    }

    private func setAttributeNow(_ name: [UInt8], _ value: [UInt8], _ flags: Int32) throws(Errno) {
        try withOwnerAccess(0o200) { () throws(Errno) in
            _ = try retrying {
                unsafe withName(name) { name in
                    unsafe isPath
                        ? setxattr(magicPath, name, value, value.count, flags)
                        : fsetxattr(number, name, value, value.count, flags)
                }
            }
        }
    }

    override func removeAttribute(_ name: [UInt8]) throws(Errno) {
        try withOwnerAccess(0o200) { () throws(Errno) in try removeAttributeNow(name) }
    }

    /// The same, without permission that the object's owner lacks.
    func removeAttributeNow(_ name: [UInt8]) throws(Errno) {
        _ = try retrying {
            unsafe withName(name) { name in
                unsafe isPath ? removexattr(magicPath, name) : fremovexattr(number, name)
            }
        }
    }

    /// Opens the object again as a file, also if it no longer has a name.
    override func openFile(_ kind: FileAccess) throws(Errno) -> BackingFile {
        // The kind is checked first, because opening a FIFO or device through the link would have side effects.
        try checkIsFile(status().kind)
        return try withOwnerAccess(kind.permission) { () throws(Errno) in
            let number = try counting(.file) { () throws(Errno) in
                try leavingAccessTime { (noTime) throws(Errno) in
                    try retrying { unsafe open(magicPath, kind.flags | noTime) }
                }
            }
            return HostFile(HostObject(taking: number, quota: quota, access: access))
        }
    }

    /// Runs `body`. If the object's owner lacks permission, adds `permission` for a moment and runs it again. So a
    /// daemon without privileges can serve its user's files of mode 0000.
    func withOwnerAccess<Result: ~Copyable>(
        _ permission: UInt32, _ body: () throws(Errno) -> Result
    ) throws(Errno) -> Result {
        do throws(Errno) {
            return try body()
        } catch {
            guard error == .EACCES, OwnerAccess.isNeeded else { throw error }
            let status = try self.status()
            guard status.owner == geteuid(), status.kind == .regular || status.kind == .directory else { throw error }
            return try access.changing { () throws(Errno) in
                // The mode is read again, because another thread may have changed it in the meantime.
                let mode = try self.status().mode & 0o7777
                guard mode & permission != permission else { return try body() }
                return try access.raising { () throws(Errno) in
                    try setModeNow(mode | permission)
                    defer { try? setModeNow(mode) }
                    return try body()
                }
            }
        }
    }
}

/// One thread at a time changes flags, so that `withoutImmutable` restores none that were changed meanwhile.
private let flagChanges = Lock<Void>(())

/// Opens with O_NOATIME, so that what the daemon reads for itself leaves the access time. The kernel refuses that for an object of
/// another owner, and it is opened without then.
func leavingAccessTime<Result: ~Copyable>(_ open: (Int32) throws(Errno) -> Result) throws(Errno) -> Result {
    do throws(Errno) {
        return try open(pfs_O_NOATIME)
    } catch {
        guard error == .EPERM else { throw error }
        return try open(0)
    }
}

/// Throws the error that `openFile` documents, unless `kind` is a regular file.
package func checkIsFile(_ kind: FileKind) throws(Errno) {
    switch kind {
    case .regular: return
    case .directory: throw .EISDIR
    case .symlink: throw .ELOOP
    default: throw .ENXIO
    }
}

extension FileAccess {
    /// The flags of open(2). O_NONBLOCK prevents a FIFO in the store from blocking the daemon, and has no effect on a
    /// regular file.
    var flags: Int32 { (self == .readOnly ? O_RDONLY : O_RDWR) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC }

    /// The owner's permission bits that this access needs.
    var permission: UInt32 { self == .readOnly ? 0o400 : 0o600 }
}

/// Calls `call` with the attribute's name as a C string. EINVAL if the name contains NUL.
private func withName<Number: FixedWidthInteger>(
    _ name: [UInt8], _ call: (UnsafePointer<CChar>) -> Number
) -> Number {
    guard !name.isEmpty, !name.contains(0) else {
        errno = EINVAL
        return -1
    }
    let terminated = (name + [0]).map { CChar(bitPattern: $0) }
    return unsafe terminated.withUnsafeBufferPointer { bytes in
        // The array is not empty, so it has an address. It is used only during the call.
        unsafe bytes.baseAddress.map { unsafe call($0) } ?? -1
    }
}

/// The first buffer's size in bytes, which suffices for nearly all values and lists of names.
private let usualAttributeRoom = 4096
/// The longest value or list of names of the kernel, in bytes (xattr(7)).
private let mostAttributeRoom = 65_536

/// Calls `call` with a buffer of the usual size, and then with the largest size if that was too small.
private func growing(_ call: (UnsafeMutableRawPointer, Int) -> Int) throws(Errno) -> [UInt8] {
    func attempt(_ room: Int) throws(Errno) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: room)
        let length = try retrying {
            unsafe bytes.withUnsafeMutableBytes { buffer in
                unsafe buffer.baseAddress.map { unsafe call($0, room) } ?? -1
            }
        }
        return Array(bytes.prefix(length))
    }
    do throws(Errno) {
        return try attempt(usualAttributeRoom)
    } catch {
        guard error == .ERANGE else { throw error }
        return try attempt(mostAttributeRoom)
    }
}

extension timespec {
    init(_ change: TimeChange) {
        switch change {
        case .keep: self.init(tv_sec: 0, tv_nsec: Int(pfs_UTIME_OMIT))
        case .now: self.init(tv_sec: 0, tv_nsec: Int(pfs_UTIME_NOW))
        case .set(let time): self.init(tv_sec: Int(time.seconds), tv_nsec: Int(time.nanoseconds))
        }
    }
}

extension Status {
    init(_ from: pfs_status) {
        self.init(
            device: from.device, inode: from.inode, mode: from.mode, links: UInt64(from.links), owner: from.owner,
            group: from.group, specialDevice: from.special_device, size: from.size, blocks: from.blocks,
            blockSize: UInt64(from.block_size), accessed: Timestamp(from.accessed), modified: Timestamp(from.modified),
            changed: Timestamp(from.changed), born: from.has_born != 0 ? Timestamp(from.born) : nil)
    }
}

extension Timestamp {
    init(_ from: pfs_time) {
        self.init(seconds: from.seconds, nanoseconds: Int64(from.nanoseconds))
    }
}
