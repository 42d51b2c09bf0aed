// The table of the words after `-o`, with their meanings. The parser, the help, the man page and the completions read it.

internal import FileContents
import HostSystem
import ProtectedVolume
import VolumeFormat

/// A word of `-o`.
package struct MountOption: Sendable {
    /// The purpose of a word.
    package enum Use: String, Sendable {
        /// It changes what protectfs does.
        case protectfs
        /// The kernel gets it unchanged.
        case kernel
        /// It is for fstab, and has no effect on a mounted volume.
        case ignored
    }

    /// The word, without its value.
    package let name: String
    /// The name of its value in the help. Nil for a word without one.
    package let value: String?
    /// Its purpose.
    package let use: Use
    /// Its meaning as one sentence without the full stop. Empty for words that protectfs does not define.
    package let meaning: String
    /// Takes its value, which is empty for a word without one.
    let take: @Sendable (inout MountOptions, String) throws(MountOptionError) -> Void

    /// The word as the help shows it.
    package var usage: String { value.map { "\(name)=\($0)" } ?? name }

    private static func flag(
        _ name: String, _ meaning: String, _ take: @escaping @Sendable (inout MountOptions) -> Void
    ) -> MountOption {
        MountOption(name: name, value: nil, use: .protectfs, meaning: meaning) { options, _ in take(&options) }
    }

    private static func valued(
        _ name: String, _ value: String, _ meaning: String,
        _ take: @escaping @Sendable (inout MountOptions, String) throws(MountOptionError) -> Void
    ) -> MountOption {
        MountOption(name: name, value: value, use: .protectfs, meaning: meaning, take: take)
    }

    private static func kernel(_ name: String) -> MountOption {
        MountOption(name: name, value: nil, use: .kernel, meaning: "") { options, _ in
            options.kernelOptions.append(name)
        }
    }

    /// A word about access times. The kernel only shows it, because it leaves the times of a FUSE file system to the daemon; and
    /// libfuse knows but two of the words.
    private static func accessTimes(_ name: String, _ files: AccessTimes, _ meaning: String) -> MountOption {
        flag(name, meaning) { options in
            options.volume.accessTimes = files
            options.volume.directoryAccessTimes = files
            options.kernelOptions.append(files == .never ? "noatime" : "atime")
        }
    }

    private static func ignored(_ name: String, value: String? = nil) -> MountOption {
        MountOption(name: name, value: value, use: .ignored, meaning: "") { _, _ in }
    }

    /// All words. Those that begin with `x-` are accepted too, and have no effect.
    package static let all: [MountOption] = own + passedOn + withoutEffect

    private static let own: [MountOption] =
        ofVolume + [
            accessTimes("noatime", .never, "move no access times"),
            accessTimes(
                "relatime", .relative,
                "move the access time at the first read after a change, and once a day (default)"),
            accessTimes("atime", .relative, "the same as relatime"),
            accessTimes(
                "strictatime", .always, "move the access time at every read that the kernel's cache does not answer"),
            flag("nodiratime", "move no access times of directories") { $0.volume.directoryAccessTimes = .never },
        ]

    private static let ofVolume: [MountOption] = [
        flag("ro", "write nothing; several read-only mounts of one volume can exist at the same time") {
            $0.volume.isReadOnly = true
        },
        flag("rw", "allow writing (default); one mount of a volume at a time") { $0.volume.isReadOnly = false },
        flag(
            "allow_other",
            "let other users use the mount, by its permissions; ordinary users need user_allow_other in /etc/fuse.conf"
        ) { $0.allowsOther = true },
        flag("allow_dev", "let device nodes work, as dev does; mount(8) does not pass dev on to helpers") {
            $0.kernelOptions.append("dev")
        },
        flag(
            "allow_suid",
            "obey set-user-ID and set-group-ID bits, as suid does; mount(8) does not pass suid on to helpers"
        ) { $0.kernelOptions.append("suid") },
        flag(
            "remount",
            "change ro, rw, nodev, nosuid, noexec and their opposites of the mount that is there; needs root, and rw needs a daemon that was not started read-only"
        ) { $0.isRemount = true },
        valued(
            "default_class", "CLASS",
            "the class of new files in directories that have no default, unless the volume has a default of its own (set with protectfs class set on the root of the mount)"
        ) { options, text throws(MountOptionError) in
            guard let known = ProtectionClass(name: text) else {
                let names = ProtectionClass.allCases.map(\.shortName).joined(separator: ", ")
                throw .badValue(option: "default_class", value: text, expected: "one of \(names)")
            }
            options.volume.defaultClass = known
        },
        flag(
            "shared",
            "other machines write the same volume: take locks in the store, look names up each time, use no write-back cache, and tolerate crash damage"
        ) { $0.volume.isShared = true },
        flag("strict", "never tolerate crash damage: every file that looks cut, zeroed or stale is an error") {
            $0.volume.isStrict = true
        },
        flag("fresh", "do not open a file that is older than this machine has seen it, as after a restore (EIO)") {
            $0.volume.refusesOlder = true
        },
        flag("recover", "tolerate crash damage in every file, for a restored snapshot") { $0.volume.recovers = true },
        flag(
            "no_family_class",
            "give a new file the class of its directory only: ignore the files that its name belongs to, and the file that had its name a moment ago"
        ) { $0.volume.keepsFamilyClass = false },
        flag(
            "no_complete_cache",
            "keep the contents of class A files out of the kernel's cache, so that a lock leaves none of them in freed memory; they are slower then"
        ) { $0.bypassesCacheForComplete = true },
        valued(
            "io_uring", "auto|off",
            "take requests over io_uring if the kernel has it and allows it (Linux 6.14, fuse.enable_uring), else over /dev/fuse; off (default) always uses /dev/fuse"
        ) { options, text throws(MountOptionError) in
            switch text {
            case "auto": options.usesRings = true
            case "off": options.usesRings = false
            default: throw .badValue(option: "io_uring", value: text, expected: "auto or off")
            }
        },
        valued(
            "idle", "DURATION",
            "lock after this time without use of files of classes A and B (reads that the kernel's cache answers do not count), suspend included: 300, 90s, 10m, 1h30m, 1d; 0 means never (default)"
        ) { options, text throws(MountOptionError) in
            guard let seconds = DurationText.seconds(text) else {
                throw .badValue(option: "idle", value: text, expected: "a duration such as 300, 90s, 10m, 2h or 1d")
            }
            options.idleSeconds = seconds == 0 ? nil : seconds
        },
        valued(
            "inactive", "DURATION",
            "close files of class completeWhenUserInactive this time after a lock, suspend included: 300, 90s, 10m (default), 1h30m, 1d; 0 means at the lock"
        ) { options, text throws(MountOptionError) in
            guard let seconds = DurationText.seconds(text) else {
                throw .badValue(
                    option: "inactive", value: text, expected: "a duration such as 300, 90s, 10m, 2h or 1d")
            }
            options.inactiveSeconds = seconds
        },
        valued("uid", "NUMBER", "show this user as the owner of everything") {
            options, text throws(MountOptionError) in options.user = try number("uid", text)
        },
        valued("gid", "NUMBER", "show this group as the group of everything") {
            options, text throws(MountOptionError) in options.group = try number("gid", text)
        },
        valued("umask", "MODE", "remove these permission bits (octal) from everything") {
            options, text throws(MountOptionError) in
            guard let bits = UInt32(text, radix: 8), bits <= 0o777 else {
                throw .badValue(option: "umask", value: text, expected: "octal permission bits")
            }
            options.mask = bits
        },
    ]

    private static let passedOn = ["nodev", "dev", "nosuid", "suid", "noexec", "exec", "sync", "dirsync"].map(kernel)

    private static let withoutEffect =
        [
            "defaults", "auto", "noauto", "user", "nouser", "users", "owner", "group", "nofail", "_netdev",
            "default_permissions", "lazytime", "nolazytime", "async", "quiet", "noiversion", "silent", "loud",
        ].map { ignored($0) } + ["comment", "fsname", "subtype"].map { ignored($0, value: "TEXT") }

    private static func number(_ name: String, _ text: String) throws(MountOptionError) -> UInt32 {
        guard let number = UInt32(text), number != UInt32.max else {
            throw .badValue(option: name, value: text, expected: "a number")
        }
        return number
    }
}
