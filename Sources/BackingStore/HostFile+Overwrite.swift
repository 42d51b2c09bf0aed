// Overwrites a file of the host so that its old bytes are removed from the disk, and reports when that is not certain.

import CLibrary
import CLinuxShim
import HostSystem

extension HostFile {
    /// The implementation of `BackingFile.overwrite`, with the host's information about the disk.
    func overwriteInPlace(_ noise: [UInt8]) throws(Errno) -> OverwriteDoubt? {
        let before = Placement.of(host)
        // The array owns the bytes during the call.
        try write(noise.span, at: 0)
        try synchronize(dataOnly: false)
        let after = Placement.of(host)
        let (found, isFromDisk) = try readBack(noise.count)
        guard found == noise else { throw .EIO }
        if let doubt = before.doubt ?? after.doubt { return doubt }
        guard before.isKept(in: after) else { return OverwriteDoubt(after.fileSystem, .moved) }
        return isFromDisk ? nil : OverwriteDoubt(after.fileSystem, .cache)
    }

    /// Reads the file's first bytes without the page cache. If the file system has no direct reads, drops the cached
    /// pages first.
    private func readBack(_ count: Int) throws(Errno) -> ([UInt8], isFromDisk: Bool) {
        do throws(Errno) {
            return (try readDirectly(count), true)
        } catch {
            guard error == .EINVAL || error == .EOPNOTSUPP else { throw error }
        }
        // Mapped or busy pages remain, so the bytes read may come from memory.
        _ = posix_fadvise(host.number, 0, 0, POSIX_FADV_DONTNEED)
        var found = [UInt8](repeating: 0, count: count)
        let length: Int
        do {
            var span = found.mutableSpan
            length = try read(into: &span, at: 0)
        }
        return (Array(found.prefix(length)), false)
    }

    /// Reads the file's first bytes with O_DIRECT (open(2)).
    ///
    /// - Throws: EINVAL if the file system does not support it.
    private func readDirectly(_ count: Int) throws(Errno) -> [UInt8] {
        let direct = HostFile(
            HostObject(
                taking: try retrying { unsafe CLibrary.open(host.magicPath, FileAccess.readOnly.flags | pfs_O_DIRECT) })
        )
        // Offset, length and address are multiples of a unit that suits every disk.
        let unit = 64 << 10
        let room = (count + unit - 1) / unit * unit
        let memory = UnsafeMutableRawBufferPointer.allocate(byteCount: max(room, unit), alignment: unit)
        defer { unsafe memory.deallocate() }
        unsafe memory.initializeMemory(as: UInt8.self, repeating: 0)
        var done = 0
        while done < count {
            // In bounds: done is a multiple of the disk's unit and below count.
            let got = try retrying {
                unsafe pread(
                    direct.host.number, memory.baseAddress.map { unsafe $0 + done }, room - done, off_t(done))
            }
            if got == 0 { break }
            done += got
            // A short read ends at the end of the file. No direct read may start at such an offset.
            if got % 512 != 0 { break }
        }
        return unsafe Array(memory.prefix(min(done, count)))
    }
}
