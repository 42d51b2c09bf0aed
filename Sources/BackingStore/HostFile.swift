// A regular file of the host's file system.

package import CLibrary
import CLinuxShim
public import HostSystem

/// An open regular file of the host.
public final class HostFile: BackingFile, @unchecked Sendable {
    let host: HostObject
    private let opened: Status?

    init(_ host: HostObject, opened: Status? = nil) {
        self.host = host
        self.opened = opened
        super.init(host)
    }

    public override func statusWhenOpened() throws(Errno) -> Status {
        if let opened { return opened }
        return try status()
    }

    public override func touchAccessTime() {
        // Of the flags that can be changed, files are opened with these two only (`FileAccess.flags`).
        _ = fcntl(host.number, F_SETFL, O_NONBLOCK)
        var byte: UInt8 = 0
        // The byte is ciphertext, and nobody looks at it.
        _ = unsafe pread(host.number, &byte, 1, 0)
        _ = fcntl(host.number, F_SETFL, O_NONBLOCK | pfs_O_NOATIME)
    }

    public override func link(to directory: BackingDirectory, _ newName: EntryName) throws(Errno) {
        guard let directory = directory as? HostDirectory else { throw .EXDEV }
        try directory.add(host, as: newName)
    }

    public override func read(into buffer: inout MutableSpan<UInt8>, at offset: UInt64) throws(Errno) -> Int {
        let position = try checkedOffset(offset, plus: UInt64(buffer.count))
        let number = host.number
        return try unsafe buffer.withUnsafeMutableBytes { (bytes) throws(Errno) in
            guard let base = bytes.baseAddress else { return 0 }
            var done = 0
            while done < bytes.count {
                // base + done is inside the span, because done < count, and the kernel writes at most the rest.
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
        let number = host.number
        try unsafe bytes.withUnsafeBytes { (bytes) throws(Errno) in
            guard let base = bytes.baseAddress else { return }
            var done = 0
            while done < bytes.count {
                // The address is inside the span, as in `read`.
                let count = try retrying {
                    unsafe pwrite(number, base + done, bytes.count - done, position + off_t(done))
                }
                // A file that accepts no bytes and reports no error would cause an endless loop.
                if count == 0 { throw .EIO }
                done += count
            }
        }
    }

    public override func overwrite(with noise: [UInt8]) throws(Errno) -> OverwriteDoubt? { try overwriteInPlace(noise) }

    public override func truncate(to length: UInt64) throws(Errno) {
        let length = try checkedOffset(length, plus: 0)
        _ = try retrying { ftruncate(host.number, length) }
    }

    public override func synchronize(dataOnly: Bool) throws(Errno) {
        _ = try retrying { dataOnly ? fdatasync(host.number) : fsync(host.number) }
    }

    public override func allocate(at offset: UInt64, length: UInt64) throws(Errno) {
        _ = try checkedOffset(offset, plus: length)
        _ = try retryingShim { pfs_fallocate(host.number, pfs_FALLOC_FL_KEEP_SIZE, offset, length) }
    }

    public override func punchHole(at offset: UInt64, length: UInt64) throws(Errno) {
        _ = try checkedOffset(offset, plus: length)
        let mode = pfs_FALLOC_FL_KEEP_SIZE | pfs_FALLOC_FL_PUNCH_HOLE
        _ = try retryingShim { pfs_fallocate(host.number, mode, offset, length) }
    }

    // This changes the descriptor's offset, which nothing else uses.
    public override func nextData(from offset: UInt64) throws(Errno) -> UInt64 {
        let offset = try checkedOffset(offset, plus: 0)
        return UInt64(try retrying { lseek(host.number, offset, pfs_SEEK_DATA) })
    }

    public override func nextHole(from offset: UInt64) throws(Errno) -> UInt64 {
        let offset = try checkedOffset(offset, plus: 0)
        return UInt64(try retrying { lseek(host.number, offset, pfs_SEEK_HOLE) })
    }

    public override func lock(exclusive: Bool) throws(Errno) {
        _ = try retrying { flock(host.number, exclusive ? LOCK_EX : LOCK_SH) }
    }

    public override func setLock(_ kind: StoreLock, _ range: ClosedRange<UInt64>, waits: Bool) throws(Errno) {
        try setHostLock(kind, range, waits: waits)
    }

    public override func lock(against kind: StoreLock, _ range: ClosedRange<UInt64>) throws(Errno) -> ForeignLock? {
        try hostLock(against: kind, range)
    }

    public override func forgetCached() { _ = pfs_forget_cached(host.number) }
}

/// The offset in the kernel's type; EFBIG if the end of the range exceeds it.
package func checkedOffset(_ offset: UInt64, plus length: UInt64) throws(Errno) -> off_t {
    let (end, overflow) = offset.addingReportingOverflow(length)
    guard !overflow, end <= UInt64(Int64.max) else { throw .EFBIG }
    return off_t(offset)
}
