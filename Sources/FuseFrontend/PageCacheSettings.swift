// Settings that root makes right after mounting so that the page cache is useful.

internal import CLibrary
internal import HostSystem

/// Settings of the mount's backing device in sysfs.
enum PageCacheSettings {
    /// Allows the mount all of the write-back memory and a megabyte of readahead. The default of 1 % costs half to two thirds
    /// of the speed of random writes.
    /// - Returns: lines for the log about settings that were not allowed.
    static func apply(mountPoint: String) -> [String] {
        let path = HostPath(mountPoint)
        guard let entry = try? MountTable.entry(at: path) else { return [] }
        let directory = "/sys/class/bdi/\(entry.major):\(entry.minor)/"
        var refused: [String] = []
        for (name, value) in [("max_ratio", "100"), ("read_ahead_kb", "1024")] {
            do throws(SystemError) {
                try Descriptor(opening: HostPath(directory + name), O_WRONLY).write(value)
            } catch {
                refused.append(name)
            }
        }
        guard !refused.isEmpty else { return [] }
        return ["\(refused.joined(separator: " and ")) of \(directory) stay as they are: only root may raise them"]
    }
}
