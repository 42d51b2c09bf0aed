// Which processes use a mount, without a request to it.

import CLibrary

/// A process that keeps a mount from being unmounted.
package struct MountUser: Sendable, Equatable {
    /// Its process ID.
    package let process: Int32
    /// Whether its current directory is on the mount.
    package let hasDirectory: Bool

    /// Those that this user may look at, by the paths that the kernel has noted: a look at the files themselves would be a request to
    /// the mount, whose daemon may be the one that waits.
    package static func all(of mount: MountEntry) -> [MountUser] {
        let processes = ((try? FileStatus.names(in: HostPath("/proc"))) ?? []).compactMap {
            Int32(String(decoding: $0.bytes, as: UTF8.self))
        }
        return processes.sorted().compactMap { process in
            let place = HostPath("/proc/\(process)")
            func isUsed(_ link: HostPath) -> Bool { target(of: link)?.isInside(mount.mountPoint) ?? false }
            let hasDirectory = isUsed(place.appending("cwd"))
            let files = place.appending("fd")
            guard
                hasDirectory || isUsed(place.appending("root")) || isUsed(place.appending("exe"))
                    || ((try? FileStatus.names(in: files)) ?? []).contains(where: {
                        isUsed(files.appending(bytes: $0.bytes))
                    }) || maps(place.appending("maps"), mount)
            else { return nil }
            return MountUser(process: process, hasDirectory: hasDirectory)
        }
    }

    private static func target(of link: HostPath) -> HostPath? {
        var buffer = [UInt8](repeating: 0, count: Int(PATH_MAX))
        let count = unsafe link.withCString { path in
            unsafe buffer.withUnsafeMutableBytes { memory in
                unsafe memory.baseAddress.map {
                    unsafe readlink(path, $0.assumingMemoryBound(to: CChar.self), memory.count)
                } ?? -1
            }
        }
        return count > 0 ? HostPath(bytes: Array(buffer[..<count])) : nil
    }

    /// Whether a file of the mount is mapped. The fourth field of each line is the device in hexadecimal digits.
    private static func maps(_ list: HostPath, _ mount: MountEntry) -> Bool {
        func digits(_ number: UInt32) -> String { (number < 16 ? "0" : "") + String(number, radix: 16) }
        let device = Array("\(digits(mount.major)):\(digits(mount.minor))".utf8)
        return ((try? readFile(list, limit: 16 << 20)) ?? []).split(separator: UInt8(ascii: "\n")).contains { line in
            let fields = line.split(separator: UInt8(ascii: " "), maxSplits: 4)
            return fields.count == 5 && fields[3].elementsEqual(device)
        }
    }
}
