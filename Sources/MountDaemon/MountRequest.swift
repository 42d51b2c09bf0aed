// The arguments of `protectfs mount`, checked as far as possible before anything is done.

import CLibrary
package import CommandSupport
internal import FileContents
package import FuseFrontend
package import HostSystem
import Keybag
import ProtectedVolume
package import SodiumKit
package import VolumeAccess
import VolumeFormat

/// One call of `protectfs mount`.
package struct MountRequest {
    /// The volume as typed.
    package let volume: HostPath
    /// The mount point as typed.
    package let mountPoint: HostPath
    /// The options after `-o`.
    package private(set) var options: MountOptions
    /// Writes a line for each request to standard error.
    let traces: Bool
    /// The volume stays in the state before first unlock.
    package let noUnlock: Bool
    /// Whether a unit of the service manager mounts, as protectfs@.service does.
    let isOfUnit: Bool
    /// The words of `-o` that this call was given.
    let optionWords: String
    /// The location of the device key.
    package private(set) var deviceKey: FoundVolume.DeviceKeyChoice
    /// The usual grace of a lock, and the longest, in seconds.
    let grace: (usual: Double, longest: Double)
    /// `--accept-keybag` and `--previous-keybag`.
    let terms: CheckedVolume.Terms

    /// Reads the command line.
    package init(_ arguments: Arguments) throws(CommandFailure) {
        let operands = arguments.operands
        volume = operands[0]
        mountPoint = operands[1]
        if MountLookup.isVolume(mountPoint), !MountLookup.isVolume(volume) {
            throw .init(
                .usage,
                "\(mountPoint) is a volume, and \(volume) is not: the volume comes first (protectfs mount \(mountPoint.word) \(volume.word))"
            )
        }
        noUnlock = arguments.has("no-unlock")
        isOfUnit = arguments.has("foreground") && ServiceManager.isThere
        terms = CheckedVolume.Terms(arguments)
        deviceKey = FoundVolume.DeviceKeyChoice(naming: arguments)
        let policy = try Policy.read()
        grace = policy.grace
        var lists = [policy.mountWords]
        for list in arguments.all("option") {
            guard let text = String(validating: list.bytes, as: UTF8.self) else {
                throw .init(.usage, "-o: the options must be UTF-8 text")
            }
            lists.append(text)
        }
        optionWords = lists.dropFirst().joined(separator: ",")
        if arguments.has("read-only") { lists.append("ro") }
        do throws(MountOptionError) {
            options = try MountOptions.parse(lists)
        } catch {
            switch error {
            case .unknown(let word):
                let name = String(word.prefix { $0 != "=" })
                let suggestion = NearMiss.suggestion(for: name, among: MountOption.all.map(\.name))
                throw .init(
                    .usage, "-o \(HostPath(word)): unknown option\(suggestion); see protectfs help mount-options")
            case .badValue(let option, let value, let expected):
                throw .init(.usage, "-o \(option)=\(HostPath(value)): expected \(expected)")
            }
        }
        // A remount only changes what the kernel does.
        if !options.isRemount {
            options.volume.leastDefault = try policy.checkMount(
                defaultClass: options.volume.defaultClass, idle: options.idleSeconds)
        }
        if options.volume.isStrict, options.volume.recovers {
            throw .init(.usage, "-o strict and -o recover cannot be used together")
        }
        if arguments.has("log-names"), !arguments.has("foreground") {
            throw .init(
                .usage, "--log-names needs --foreground: names of files do not belong in the system log")
        }
        options.logsNames = arguments.has("log-names")
        if arguments.has("trace"), !arguments.has("foreground") {
            throw .init(.usage, "use --trace together with --foreground")
        }
        traces = arguments.has("trace")
        try CredentialInput.refuseUnused(arguments)
    }

    /// Whether the mount is read-only.
    package var isReadOnly: Bool { options.volume.isReadOnly }

    /// Reads a device key that comes from a pipe. The process that guards the connection is forked before this.
    package mutating func readDeviceKey() throws(CommandFailure) { deviceKey = try deviceKey.read() }

    /// Takes the device key that the starter has read from a pipe.
    package mutating func take(_ key: consuming SecretKey) {
        if case .file(let path) = deviceKey { deviceKey = .held(HeldDeviceKey(key, path)) }
    }

    /// The same request, read-only.
    var readOnly: MountRequest {
        var result = self
        result.options.volume.isReadOnly = true
        return result
    }

    /// Makes the checks that need no secret: the volume, the mount point, and whether the machine can mount.
    package func check() throws(CommandFailure) -> CheckedVolume {
        let access = try CheckedVolume(volume, terms)
        try MountPoint.check(mountPoint, volume: volume)
        try ControlService.checkPlace((try? mountPoint.resolved()) ?? mountPoint)
        guard unsafe CLibrary.access("/dev/fuse", F_OK) == 0 else {
            throw .init(.unsupported, MountRefusal.deviceRefusal)
        }
        if Credentials.isRoot {
            // Root opens the device itself. For other users fusermount3 does it, which is setuid.
            guard (try? Descriptor(opening: HostPath("/dev/fuse"), O_RDWR)) != nil else {
                throw .init(.failure, MountRefusal.deviceRefusal)
            }
        }
        if noUnlock, !access.bag.hasDeviceKey {
            throw .init(.usage, "\(volume): has no device key, so it cannot be mounted without unlocking it")
        }
        return access
    }
}
