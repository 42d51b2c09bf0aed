// Whether the kernel wipes memory when it is freed, and the note if it does not.

import CLibrary
import HostSystem

/// A lock cannot wipe freed memory. Page cache frames that the kernel has dropped keep their bytes until they are used again.
/// No program can reach them, and with `init_on_free=1` the kernel wipes them itself.
package enum FreedMemory {
    /// The kernel's treatment of freed memory.
    package enum Wiping: Equatable {
        case on
        case off
        /// Its command line does not tell, and its build configuration cannot be read.
        case unknown
    }

    /// Tells each user once per boot or login, on standard error, that freed memory is not wiped.
    package static func noteOnce() {
        guard wiping() != .on else { return }
        // If this cannot be recorded, the note would come at every lock. Then only the manual has it.
        guard isFirst() else { return }
        Output.note("protectfs: note: freed memory can hold plaintext for a while; protectfs doctor says more")
    }

    private static func isFirst() -> Bool {
        // The record is in memory and not beside the state file, because a lock must not wait for a disk that does not answer.
        // A home directory that is a mount must not be written to by a lock.
        guard let place = SystemPaths.runtimes.first, (try? MountTable.entry(containing: place))?.isProtectfs != true,
            let directory = try? SystemPaths.makeRuntime()
        else { return false }
        let marker = directory.appending("init-on-free.told")
        return (try? Descriptor(opening: marker, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode: 0o600)) != nil
    }

    /// What this kernel does, as far as it can be told.
    package static func wiping() -> Wiping {
        if let line = try? readFile(HostPath("/proc/cmdline")), let wiping = fromCommandLine(line) { return wiping }
        var name = utsname()
        guard unsafe uname(&name) == 0 else { return .unknown }
        let release = unsafe withUnsafeBytes(of: &name.release) { unsafe Array($0.prefix { $0 != 0 }) }
        for place in ["/boot/config-", "/lib/modules/", "/usr/lib/modules/"] {
            var path = HostPath(bytes: Array(place.utf8) + release)
            if place.hasSuffix("modules/") { path = path.appending("config") }
            if let text = try? readFile(path), let wiping = fromConfiguration(text) { return wiping }
        }
        return compressedConfiguration().flatMap(fromConfiguration) ?? .unknown
    }

    /// The last word of the command line counts, and is read as the kernel does (kstrtobool).
    static func fromCommandLine(_ line: [UInt8]) -> Wiping? {
        let option = Array("init_on_free=".utf8)
        var result: Wiping?
        for word in line.split(whereSeparator: { $0 == UInt8(ascii: " ") || $0 == UInt8(ascii: "\n") }) {
            // The rest is for the first program, not for the kernel.
            if word.elementsEqual("--".utf8) { break }
            guard word.starts(with: option) else { continue }
            let value = word.dropFirst(option.count).prefix(2).map { Character(Unicode.Scalar($0 | 0x20)) }
            switch (value.first, value.dropFirst().first) {
            case ("1", _), ("y", _), ("t", _), ("o", "n"): result = .on
            case ("0", _), ("n", _), ("f", _), ("o", "f"): result = .off
            default: break
            }
        }
        return result
    }

    /// The kernel's default if its command line does not tell. Nil if the configuration is incomplete.
    static func fromConfiguration(_ text: [UInt8]) -> Wiping? {
        var isWhole = false
        for line in text.split(separator: UInt8(ascii: "\n")) {
            if line.elementsEqual("CONFIG_INIT_ON_FREE_DEFAULT_ON=y".utf8) { return .on }
            if line.starts(with: "CONFIG_MMU=".utf8) { isWhole = true }
        }
        return isWhole ? .off : nil
    }

    /// /proc/config.gz, by gzip(1).
    private static func compressedConfiguration() -> [UInt8]? {
        guard let file = try? Descriptor(opening: HostPath("/proc/config.gz"), O_RDONLY), var pipe = try? Pipe(),
            let reading = pipe.reading.take(), let writing = pipe.writing.take(),
            let null = try? Descriptor(opening: HostPath("/dev/null"), O_WRONLY),
            let child = try? ChildProcess.start(
                HostPath("gzip"), ["gzip", "-dc"].map { Array($0.utf8) },
                descriptors: [(0, file.number), (1, writing.number), (2, null.number)])
        else { return nil }
        _ = consume writing
        let text = try? reading.readAll(limit: 4 << 20)
        _ = consume reading
        return (try? child.wait()) == .exited(0) ? text : nil
    }
}
