// Overwriting a file of the host so that its former bytes are gone from the disk, and saying where that is not certain.

import CLinuxShim
import Glibc
import HostSystem

extension HostFile {
    /// `BackingFile.overwrite` with what the host tells of the disk.
    func overwriteInPlace(_ noise: [UInt8]) throws(Errno) -> OverwriteDoubt? {
        let before = Placement.of(host)
        // The array owns the bytes for the length of the call.
        try write(noise.span, at: 0)
        try synchronize(dataOnly: false)
        let after = Placement.of(host)
        let (found, isFromDisk) = try readBack(noise.count)
        guard found == noise else { throw .EIO }
        if let doubt = before.doubt ?? after.doubt { return doubt }
        guard before.isKept(in: after) else { return OverwriteDoubt(after.fileSystem, .moved) }
        return isFromDisk ? nil : OverwriteDoubt(after.fileSystem, .cache)
    }

    /// The file's first bytes past the page cache; where the file system has no direct reads, after its pages were dropped.
    private func readBack(_ count: Int) throws(Errno) -> ([UInt8], isFromDisk: Bool) {
        do throws(Errno) {
            return (try readDirectly(count), true)
        } catch {
            guard error == .EINVAL || error == .EOPNOTSUPP else { throw error }
        }
        // Pages that are mapped or busy stay: what is read then may come from memory.
        _ = posix_fadvise(host.number, 0, 0, POSIX_FADV_DONTNEED)
        var found = [UInt8](repeating: 0, count: count)
        let length: Int
        do {
            var span = found.mutableSpan
            length = try read(into: &span, at: 0)
        }
        return (Array(found.prefix(length)), false)
    }

    /// - Throws: EINVAL where the file system cannot.
    private func readDirectly(_ count: Int) throws(Errno) -> [UInt8] {
        let direct = HostFile(
            HostObject(
                taking: try retrying { unsafe Glibc.open(host.magicPath, FileAccess.readOnly.flags | pfs_O_DIRECT) }))
        // Offset, length and address in units that fit every disk.
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
            // A short read ends at the end of the file, at a place where no further direct read may start.
            if got % 512 != 0 { break }
        }
        return unsafe Array(memory.prefix(min(done, count)))
    }
}
