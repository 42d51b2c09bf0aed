// The command line: an input is a list of words, each ended by a zero byte, that a command's options take apart, and a
// list of mount options.

@testable import FuseFrontend
import CommandSupport
import FileContents
import HostSystem
import VolumeFormat

/// One option of every sort, and those that commands share.
private let options =
    [
        Option("option", letter: "o", value: Value(name: "LIST", kind: .mountOptions), repeats: true, help: ""),
        Option("json", letter: "j", help: ""),
        Option("grace", letter: "g", value: .seconds, help: ""), .deviceKey, .acceptKeybag, .previousKeybag,
    ] + Option.credentials + Option.newPassphrase

private func parse(_ words: [HostPath]) -> Arguments? { try? Arguments(words[...], options: options) }

enum OptionsTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        let input = bytes.copiedBytes()
        let words = input.split(separator: 0, omittingEmptySubsequences: false).map { HostPath(bytes: $0) }
        if let arguments = parse(words) {
            // Written in one way, they are understood as the same again.
            var again: [HostPath] = []
            for option in options + [.help] where arguments.has(option.name) {
                for value in arguments.all(option.name) {
                    check(option.value != nil || value.bytes.isEmpty, "an option without value has one")
                    let text = "--\(option.name)" + (option.value == nil ? "" : "=")
                    again.append(HostPath(bytes: Array(text.utf8) + Array(value.bytes)))
                }
                check(
                    option.repeats || option.value == nil || arguments.all(option.name).count == 1,
                    "an option counts twice"
                )
            }
            again.append(HostPath("--"))
            again += arguments.operands
            guard let same = parse(again) else { fatalError("options that were understood are refused") }
            for option in options { check(same.all(option.name) == arguments.all(option.name), "an option changes") }
            check(same.operands == arguments.operands, "operands change")
            if let seconds = try? arguments.seconds("grace") { check(seconds <= 315_360_000, "a duration is too long") }
            _ = try? arguments.check([.volume, .mountPoint])
        }
        let lists = words.map { String(decoding: $0.bytes, as: UTF8.self) }
        guard let mount = try? MountOptions.parse(lists) else { return }
        check((mount.mask ?? 0) <= 0o777, "a mask has other bits")
        check(mount.user != UInt32.max && mount.group != UInt32.max, "nobody's number is accepted")
        check(mount.idleSeconds != 0, "an idle time is zero")
        for word in mount.sessionOptions {
            var isEscaped = false
            for character in word {
                check(isEscaped || character != ",", "a word for libfuse is two")
                isEscaped = character == "\\" && !isEscaped
            }
        }
        // Written as words, they are understood as the same again.
        var list = mount.kernelOptions
        let volume = mount.volume
        // The kernel gets one of two words for the three about access times.
        if let last = list.lastIndex(where: { $0 == "atime" || $0 == "noatime" }) {
            list[last] =
                switch volume.accessTimes {
                case .never: "noatime"
                case .relative: "relatime"
                case .always: "strictatime"
                }
        }
        if volume.directoryAccessTimes == .never, volume.accessTimes != .never { list.append("nodiratime") }
        if mount.isRemount { list.append("remount") }
        if mount.bypassesCacheForComplete { list.append("no_complete_cache") }
        if volume.isReadOnly { list.append("ro") }
        if mount.allowsOther { list.append("allow_other") }
        if volume.isShared { list.append("shared") }
        if volume.isStrict { list.append("strict") }
        if volume.recovers { list.append("recover") }
        if !volume.keepsFamilyClass { list.append("no_family_class") }
        list.append("default_class=\(volume.defaultClass.canonicalName)")
        if let value = mount.idleSeconds { list.append("idle=\(value)") }
        list.append("inactive=\(mount.inactiveSeconds)")
        if let value = mount.user { list.append("uid=\(value)") }
        if let value = mount.group { list.append("gid=\(value)") }
        if let value = mount.mask { list.append("umask=\(String(value, radix: 8))") }
        check((try? MountOptions.parse([list.joined(separator: ",")])) == mount, "mount options change")
    }

    static func seeds() -> [[UInt8]] {
        [
            "--json\0-o\0ro,noatime\0-oshared\0VOLUME\0MOUNTPOINT",
            "-jo\0idle=1h30m,uid=0,gid=0,umask=077\0--\0-x\0--json",
            "--grace=30\0--device-key\0none\0--passphrase-file=/dev/null\0--accept-keybag\0x", "--help", "-h\0--\0",
            "-",
            "default_class=complete,x-systemd.automount,comment=a,b\\,c\0allow_other,strict,recover,no_family_class,nodev,user,_netdev",
            "inactive=0\0inactive=2h,idle=1\0inactive=18446744073709551615",
            "remount,strictatime,nodiratime\0idle=18446744073709551615s\0idle=90s,uid=4294967295",
            "--grace\0--new-passphrase-command=printf x\0-g5",
        ].map { Array($0.utf8) }
    }
}
