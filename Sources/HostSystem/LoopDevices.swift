// Loop devices (loop(4)), and the files below them.

/// A block device that shows the contents of a file.
package struct LoopDevice: Sendable, Equatable {
    /// Its path in /dev.
    package let device: HostPath
    /// The file, as this process sees it.
    package let file: HostPath

    /// The loop devices over files in a directory and below.
    package static func over(_ directory: HostPath) -> [LoopDevice] {
        let place = HostPath("/sys/block")
        return ((try? FileStatus.names(in: place)) ?? []).filter { $0.bytes.starts(with: "loop".utf8) }.compactMap {
            name in
            let entry = place.appending(bytes: name.bytes).appending("loop/backing_file")
            guard let line = (try? readFile(entry))?.prefix(while: { $0 != UInt8(ascii: "\n") }), !line.isEmpty else {
                return nil
            }
            let file = HostPath(bytes: Array(line))
            return file.isInside(directory)
                ? LoopDevice(device: HostPath("/dev").appending(bytes: name.bytes), file: file) : nil
        }
    }
}
