// A file that gets a stronger class: the daemon encrypts it again, so that no older copy of its header opens it.

import CLibrary
import HostSystem
import VolumeFormat

/// The replacement of an existing file by a version that has a stronger class and a new key.
enum Tightening {
    /// Asks the daemon of the mount to encrypt a file again under a stronger class.
    ///
    /// - Returns: true if that was done. False if the class is not stronger, the file is empty or has several names, or the
    ///   daemon cannot do it now, for example because the file is open for writing. The attribute then changes the class
    ///   and keeps the key.
    static func reencrypt(_ path: String, to type: FileProtectionType) -> Bool {
        guard let wanted = type.protectionClass, let real = try? HostPath(path).resolved(), concerns(real, wanted),
            let mount = try? MountTable.entry(containing: real), mount.isProtectfs
        else { return false }
        // A bind mount shows a directory of the file system.
        let below = HostPath(bytes: mount.root.bytes + real.bytes.dropFirst(mount.mountPoint.bytes.count))
        let place = Hexadecimal.text(HostPath(components: below.components).bytes)
        let request = ["request": "class", "path": place, "class": wanted.canonicalName, "mode": "reencrypt"]
        return ControlSocket.ask(request, mount.mountPoint.text)?.ok == true
    }

    /// Whether the class would be stronger than that of a file with content and one name, which this user may change. The
    /// daemon does not ask for permissions of the file, because only the owner of the mount reaches it.
    private static func concerns(_ path: HostPath, _ wanted: ProtectionClass) -> Bool {
        guard let status = try? FileStatus.read(path), status.st_mode & S_IFMT == S_IFREG, status.st_nlink == 1,
            status.st_size > 0,
            status.st_uid == geteuid() || Foundation.FileManager.default.isWritableFile(atPath: path.text),
            let now = (try? ProtectionAttribute.get(path.text)).flatMap({ $0 })?.protectionClass
        else { return false }
        return wanted.isStronger(than: now)
    }
}
