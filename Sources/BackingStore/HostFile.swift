// A regular file, or a handle on any object, of the host's file system.

import CLinuxShim
package import Glibc
public import HostSystem

/// A handle on any object of the host, opened with O_PATH.
public final class HostNode: BackingNode, @unchecked Sendable {
    let descriptor: Descriptor

    init(_ descriptor: consuming Descriptor) {
        self.descriptor = descriptor
    }

    public override func status() throws(Errno) -> Status { try descriptor.status() }
    public override func setMode(_ mode: UInt32) throws(Errno) { try descriptor.setMode(mode) }
    public override func setOwner(_ owner: UInt32?, group: UInt32?) throws(Errno) {
        try descriptor.setOwner(owner, group: group)
    }
    public override func setTimes(accessed: TimeChange, modified: TimeChange) throws(Errno) {
        try descriptor.setTimes(accessed: accessed, modified: modified)
    }
    public override func attribute(_ name: [UInt8]) throws(Errno) -> [UInt8] { try descriptor.attribute(name) }
    public override func setAttribute(_ name: [UInt8], _ value: [UInt8], mode: AttributeMode) throws(Errno) {
        try descriptor.setAttribute(name, value, mode: mode)
    }
    public override func removeAttribute(_ name: [UInt8]) throws(Errno) { try descriptor.removeAttribute(name) }
    public override func attributeNames() throws(Errno) -> [[UInt8]] { try descriptor.attributeNames() }
    public override func openFile(_ access: FileAccess) throws(Errno) -> BackingFile {
        try descriptor.openFile(access)
    }
}

/// An open regular file of the host.
public final class HostFile: BackingFile, @unchecked Sendable {
    let descriptor: Descriptor

    init(_ descriptor: consuming Descriptor) {
        self.descriptor = descriptor
    }

    public override func leaveAccessTime() {
        let flags = fcntl(descriptor.number, F_GETFL)
        // Refused for a file of another owner.
        if flags >= 0 { _ = fcntl(descriptor.number, F_SETFL, flags | pfs_O_NOATIME) }
    }

    public override func status() throws(Errno) -> Status { try descriptor.status() }
    public override func setMode(_ mode: UInt32) throws(Errno) { try descriptor.setMode(mode) }
    public override func setOwner(_ owner: UInt32?, group: UInt32?) throws(Errno) {
        try descriptor.setOwner(owner, group: group)
    }
    public override func setTimes(accessed: TimeChange, modified: TimeChange) throws(Errno) {
        try descriptor.setTimes(accessed: accessed, modified: modified)
    }
    public override func attribute(_ name: [UInt8]) throws(Errno) -> [UInt8] { try descriptor.attribute(name) }
    public override func setAttribute(_ name: [UInt8], _ value: [UInt8], mode: AttributeMode) throws(Errno) {
        try descriptor.setAttribute(name, value, mode: mode)
    }
    public override func removeAttribute(_ name: [UInt8]) throws(Errno) { try descriptor.removeAttribute(name) }
    public override func attributeNames() throws(Errno) -> [[UInt8]] { try descriptor.attributeNames() }
    public override func openFile(_ access: FileAccess) throws(Errno) -> BackingFile {
        try descriptor.openFile(access)
    }

    public override func read(into buffer: inout MutableSpan<UInt8>, at offset: UInt64) throws(Errno) -> Int {
        let position = try checkedOffset(offset, plus: UInt64(buffer.count))
        let number = descriptor.number
        return try unsafe buffer.withUnsafeMutableBytes { (bytes) throws(Errno) in
            guard let base = bytes.baseAddress else { return 0 }
            var done = 0
            while done < bytes.count {
                // base + done stays inside the span: done < count, and the kernel writes at most what is left.
                let count = try retrying {
                    unsafe pread(number, base + done, bytes.count - done, position + off_t(done))
                }
                if count == 0 { break }
                done += count
            }
            return done
        }
    }

    public override func write(_ bytes: Span<UInt8>, at offset: UInt64) throws(Errno) {
        let position = try checkedOffset(offset, plus: UInt64(bytes.count))
        let number = descriptor.number
        try unsafe bytes.withUnsafeBytes { (bytes) throws(Errno) in
            guard let base = bytes.baseAddress else { return }
            var done = 0
            while done < bytes.count {
                // As in read.
                let count = try retrying {
                    unsafe pwrite(number, base + done, bytes.count - done, position + off_t(done))
                }
                // A regular file that takes nothing and gives no error would be waited for in vain.
                if count == 0 { throw .EIO }
                done += count
            }
        }
    }

    public override func overwrite(with noise: [UInt8]) throws(Errno) -> OverwriteDoubt? { try overwriteInPlace(noise) }

    public override func truncate(to length: UInt64) throws(Errno) {
        let length = try checkedOffset(length, plus: 0)
        _ = try retrying { ftruncate(descriptor.number, length) }
    }

    public override func synchronize(dataOnly: Bool) throws(Errno) {
        _ = try retrying { dataOnly ? fdatasync(descriptor.number) : fsync(descriptor.number) }
    }

    public override func allocate(at offset: UInt64, length: UInt64) throws(Errno) {
        _ = try checkedOffset(offset, plus: length)
        _ = try retryingShim { pfs_fallocate(descriptor.number, pfs_FALLOC_FL_KEEP_SIZE, offset, length) }
    }

    public override func punchHole(at offset: UInt64, length: UInt64) throws(Errno) {
        _ = try checkedOffset(offset, plus: length)
        let mode = pfs_FALLOC_FL_KEEP_SIZE | pfs_FALLOC_FL_PUNCH_HOLE
        _ = try retryingShim { pfs_fallocate(descriptor.number, mode, offset, length) }
    }

    // The descriptor's own offset moves, but nothing else uses it.
    public override func nextData(from offset: UInt64) throws(Errno) -> UInt64 {
        let offset = try checkedOffset(offset, plus: 0)
        return UInt64(try retrying { lseek(descriptor.number, offset, pfs_SEEK_DATA) })
    }

    public override func nextHole(from offset: UInt64) throws(Errno) -> UInt64 {
        let offset = try checkedOffset(offset, plus: 0)
        return UInt64(try retrying { lseek(descriptor.number, offset, pfs_SEEK_HOLE) })
    }

    public override func lock(exclusive: Bool) throws(Errno) {
        _ = try retrying { flock(descriptor.number, exclusive ? LOCK_EX : LOCK_SH) }
    }
}

/// The offset as the kernel's type; EFBIG when the range leaves it.
package func checkedOffset(_ offset: UInt64, plus length: UInt64) throws(Errno) -> off_t {
    let (end, overflow) = offset.addingReportingOverflow(length)
    guard !overflow, end <= UInt64(Int64.max) else { throw .EFBIG }
    return off_t(offset)
}
