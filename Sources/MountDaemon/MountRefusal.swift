// Why the system mounts nothing for this user, and the command that changes that.

import CLibrary
import HostSystem

/// What libfuse and fusermount3 say of a mount that they refuse, for a person.
struct MountRefusal {
    private static let device = HostPath("/dev/fuse")
    private static let configuration = "/etc/fuse.conf"

    /// The sentence after the mount point.
    let text: String

    /// - Parameters:
    ///   - code: the error number, 0 if there is none.
    ///   - said: the line that was written to standard error.
    init(_ code: Int32, said: String?) {
        let said = said ?? ""
        if said.contains("failed to exec") || said.contains("fusermount3: command not found") {
            text = Self.helper(said)
        } else if said.contains("fuse device not found") || said.contains("\(Self.device): ") {
            text = Self.deviceRefusal
        } else if said.contains("user_allow_other") {
            text =
                "-o allow_other needs the line user_allow_other in \(Self.configuration); to add it: echo user_allow_other | sudo tee -a \(Self.configuration)"
        } else if said.contains("too many FUSE filesystems") {
            text =
                "this machine allows users no more FUSE mounts; unmount one (findmnt -t fuse,fuse.protectfs lists them), or raise the limit: echo mount_max = 10000 | sudo tee -a \(Self.configuration)"
        } else if code == EPERM || code == EACCES || said.contains("not permitted") {
            text = Self.unprivileged(said)
        } else {
            text = "cannot mount: \(said.isEmpty ? SystemError.reason(of: code) : said)"
        }
    }

    /// /dev/fuse is missing, or this user may not open it.
    static var deviceRefusal: String {
        guard let status = try? FileStatus.read(device) else {
            return
                "\(device) is missing: load the fuse module (sudo modprobe fuse), or give the container the device (docker run --device \(device))"
        }
        let mode = String(status.st_mode & 0o7777, radix: 8)
        let owner = "mode \(mode), group \(AccountNames.group(status.st_gid))"
        if Credentials.isRoot {
            return
                "\(device) (\(owner)) cannot be opened, although you are root; give the container the device (docker run --device \(device))"
        }
        if let join = join(status, 0o060) { return "you may not open \(device) (\(owner)); \(join)" }
        return "you may not open \(device) (\(owner)); to open it to everyone: sudo chmod 666 \(device)"
    }

    /// The command that makes this user a member of the file's group, if the group has what the user needs. The group of root is for root.
    private static func join(_ status: stat, _ needed: UInt32) -> String? {
        guard status.st_mode & needed == needed, status.st_gid != 0 else { return nil }
        let group = AccountNames.group(status.st_gid)
        return "join its group, and log in again: sudo usermod -aG \(group) \(AccountNames.user(getuid()))"
    }

    /// fusermount3, where a shell finds it. Nil if it is missing.
    private static var helperFile: HostPath? {
        let places = (SystemPaths.environment("PATH")?.bytes ?? []).split(separator: UInt8(ascii: ":")).map {
            HostPath(bytes: Array($0))
        }
        return (places + [HostPath("/usr/bin"), HostPath("/bin")]).map { $0.appending("fusermount3") }
            .first { (try? FileStatus.read($0)) != nil }
    }

    /// fusermount3 cannot be started.
    private static func helper(_ said: String) -> String {
        guard let program = helperFile else {
            return
                "fusermount3 is missing; install its package: sudo apt install fuse3 (Fedora: sudo dnf install fuse3)"
        }
        let start = "you may not start \(program)"
        if let status = try? FileStatus.read(program), let join = join(status, 0o010) { return "\(start); \(join)" }
        return "\(start); to allow it: sudo chmod 4755 \(program)"
    }

    private static func unprivileged(_ said: String) -> String {
        if !Credentials.isRoot, let program = helperFile,
            let status = try? FileStatus.read(program), status.st_mode & S_ISUID == 0 || status.st_uid != 0
        {
            return
                "\(program) has not the rights of root, which mounting needs: sudo chown root \(program) && sudo chmod 4755 \(program)"
        }
        let reason = said.isEmpty ? "" : " (\(said))"
        return
            "mounting is not permitted here\(reason); a container needs --device \(device) --cap-add SYS_ADMIN --security-opt apparmor=unconfined"
    }
}
