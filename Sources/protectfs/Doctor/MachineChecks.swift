// What `doctor` looks at on the machine: where the memory of programs can end up, and limits.

import CLibrary
import CommandSupport
import FuseFrontend
import HostSystem
import SodiumKit

/// Checks that need no mount. What cannot be read is not reported.
enum MachineChecks {
    static func all() -> [Weakness] {
        let swaps = openSwaps()
        var weaknesses = swaps.map { swap in
            Weakness(
                check: .swap, place: swap,
                problem: "swap that is not encrypted, where the memory of programs stays in plain text",
                advice: "encrypt it (crypttab(5), option swap), or use zram")
        }
        weaknesses += [hibernation(swaps), coreDumps(), freedMemory(), lockedMemory(), allowOther(), rings()].compactMap
        { $0 }
        return weaknesses
    }

    private static func lines(_ path: String) -> [Substring] {
        guard let bytes = try? readFile(HostPath(path)) else { return [] }
        return String(decoding: bytes, as: UTF8.self).split(separator: "\n")
    }

    /// The devices and files of swap that are not encrypted (proc_swaps(5)).
    private static func openSwaps() -> [HostPath] {
        lines("/proc/swaps").dropFirst().compactMap { line in
            let fields = line.split(whereSeparator: { $0 == " " || $0 == "\t" })
            guard fields.count >= 2 else { return nil }
            let path = HostPath(bytes: MountTable.unescape(ArraySlice(fields[0].utf8)))
            if path.lastComponent.bytes.starts(with: "zram".utf8) { return nil }
            let device = fields[1] == "file" ? try? MountTable.entry(containing: path)?.source : path
            return device.map(isEncrypted) == true ? nil : path
        }
    }

    /// Whether a block device is dm-crypt, or consists of such devices alone.
    private static func isEncrypted(_ device: HostPath) -> Bool {
        guard let name = (try? device.resolved())?.lastComponent else { return false }
        return isEncrypted(name: name, depth: 0)
    }

    private static func isEncrypted(name: HostPath, depth: Int) -> Bool {
        let place = HostPath("/sys/class/block").appending(bytes: name.bytes)
        if let identity = try? readFile(place.appending("dm/uuid")), identity.starts(with: "CRYPT-".utf8) {
            return true
        }
        // A logical volume on an encrypted partition, for example.
        guard depth < 8, let below = try? FileStatus.names(in: place.appending("slaves")), !below.isEmpty else {
            return false
        }
        return below.allSatisfy { isEncrypted(name: $0, depth: depth + 1) }
    }

    private static func hibernation(_ swaps: [HostPath]) -> Weakness? {
        let ways = lines("/sys/power/state").flatMap { $0.split(separator: " ") }
        guard let swap = swaps.first, ways.contains("disk"),
            !lines("/sys/power/disk").joined().contains("[disabled]")
        else { return nil }
        return Weakness(
            check: .hibernation, place: swap,
            problem: "hibernation writes all memory there, the keys of an unlocked volume included",
            advice: "encrypt it, or forbid hibernation (systemctl mask hibernate.target)")
    }

    private static func coreDumps() -> Weakness? {
        guard let pattern = lines("/proc/sys/kernel/core_pattern").first, !pattern.isEmpty else { return nil }
        // The daemon makes no core dumps. A program that reads files may.
        let problem = "a program that crashes leaves what it has read from a volume in a core dump"
        if pattern.hasPrefix("|") {
            let handler = pattern.dropFirst().prefix { $0 != " " }
            guard handler.hasSuffix("systemd-coredump") else {
                return Weakness(
                    check: .coreDumps, place: HostPath("/proc/sys/kernel/core_pattern"),
                    problem: "\(problem), which \(handler) keeps", advice: "configure it to keep none, or remove it")
            }
            let settings = "/etc/systemd/coredump.conf"
            let more = (try? FileStatus.names(in: HostPath(settings + ".d"))) ?? []
            let places = [settings] + more.map { "\(settings).d/\($0)" }
            let isOff = places.flatMap(lines).contains { $0.filter { $0 != " " }.lowercased() == "storage=none" }
            guard !isOff else { return nil }
            return Weakness(
                check: .coreDumps, place: HostPath(settings), problem: "\(problem), which systemd keeps",
                advice: "set Storage=none there")
        }
        // This process has given up its own. The shell that has started it shows what other programs may.
        let limits = lines("/proc/\(getppid())/limits").first { $0.hasPrefix("Max core file size") }
        guard let limit = limits?.split(separator: " ").dropFirst(4).first, limit != "0" else { return nil }
        return Weakness(
            check: .coreDumps, place: nil, problem: problem, advice: "forbid them: ulimit -c 0 (limits.conf(5))")
    }

    private static func freedMemory() -> Weakness? {
        let problem: String
        switch FreedMemory.wiping() {
        case .on: return nil
        case .off: problem = "the kernel does not wipe memory when it is freed"
        case .unknown: problem = "it cannot be told whether the kernel wipes memory when it is freed"
        }
        return Weakness(
            check: .freedMemory, place: nil,
            problem: "\(problem), so plaintext of locked files can stay in unused memory for a while",
            advice: "start the kernel with init_on_free=1")
    }

    private static func lockedMemory() -> Weakness? {
        let (least, limit) = (WorkerLimits.leastLockedMemory, lockableMemory())
        guard limit < least else { return nil }
        return Weakness(
            check: .lockedMemory, place: nil,
            problem: "the limit of locked memory is \(limit / 1024) KiB, and a mount needs \(least / 1024) KiB",
            advice: "raise it (ulimit -l, or LimitMEMLOCK= in systemd)")
    }

    /// The kernel's switch for io_uring, which is off unless an administrator has changed it.
    private static func rings() -> Weakness? {
        guard let place = WorkerLimits.ringSwitchThatIsOff.map({ HostPath($0) }) else { return nil }
        return Weakness(
            check: .ioUring, place: place,
            problem:
                "the kernel lets no mount use io_uring, which makes some programs a little faster and others slower",
            advice:
                "to try it, as root: echo Y > \(place), and echo options fuse enable_uring=1 > /etc/modprobe.d/protectfs.conf for later starts of the machine; then mount with -o io_uring=auto"
        )
    }

    private static func allowOther() -> Weakness? {
        let isAllowed = lines("/etc/fuse.conf").contains { line in
            line.prefix { $0 != "#" }.filter { $0 != " " && $0 != "\t" } == "user_allow_other"
        }
        guard isAllowed else { return nil }
        return Weakness(
            check: .allowOther, place: HostPath("/etc/fuse.conf"),
            problem: "user_allow_other lets every user open a mount to all others (-o allow_other)",
            advice: "remove the line if nobody needs it")
    }
}
