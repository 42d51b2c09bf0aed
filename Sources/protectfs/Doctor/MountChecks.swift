// What `doctor` looks at for one mount: its store, its keys and their copies, what a desktop has noted of its files, and its classes.

import CLibrary
import CommandSupport
import Control
import HostSystem
import Keybag
import VolumeAccess
import VolumeFormat

/// The checks of one mount. What cannot be read is not reported.
struct MountChecks {
    private let mount: MountEntry

    init(_ mount: MountEntry) { self.mount = mount }

    func all() -> [Weakness] {
        if MountLookup.isDead(mount) {
            return [
                Weakness(
                    check: .daemon, place: mount.mountPoint, problem: "the daemon of the mount has died",
                    advice: "remove the mount with protectfs unmount, and mount again")
            ]
        }
        let found = try? FoundVolume(mount.source)
        return [store(), passwordHash(found), keybagCopy(found)].compactMap { $0 } + keys(found) + loopDevices()
            + DesktopTraces(mount.mountPoint).all()
            + weakDefaults()
    }

    /// File systems that may not pass a sync on to a disk, or lose it.
    private static let weakTypes: Set<String> = ["9p", "vboxsf", "vmhgfs", "ecryptfs", "hgfs"]
    private static let memoryTypes: Set<String> = ["tmpfs", "ramfs"]
    private static let weakOptions: Set<String> = ["nobarrier", "barrier=0", "volatile", "fsync=volatile"]

    private func store() -> Weakness? {
        guard let source = try? mount.source.resolved(), let below = try? MountTable.entry(containing: source) else {
            return nil
        }
        func weakness(_ problem: String) -> Weakness {
            Weakness(
                check: .store, place: mount.source, problem: problem,
                advice: "keep the volume on a local disk, and back it up")
        }
        if Self.memoryTypes.contains(below.type) {
            return weakness("the volume is on \(below.type), and is lost when the machine is switched off")
        }
        let loses = "a power cut can lose what programs have synced"
        let options = below.superOptions.split(separator: ",").map(String.init)
        if let option = options.first(where: Self.weakOptions.contains) {
            return weakness("its file system is mounted with \(option), so \(loses)")
        }
        if Self.weakTypes.contains(below.type) || below.type.hasPrefix("fuse") {
            return weakness("the volume is on \(below.type), which may not pass syncs on, so \(loses)")
        }
        return nil
    }

    /// Copies cannot be seen from here. One disk that has both cannot be the only place of either.
    private func keys(_ found: FoundVolume?) -> [Weakness] {
        guard let found, found.bag.hasDeviceKey,
            let store = try? FileStatus.read(mount.source)
        else { return [] }
        let keys = LocalFile.deviceKeys(of: found.bag.volumeID).map(\.path)
        return keys.filter { (try? FileStatus.read($0))?.st_dev == store.st_dev }.map { key in
            Weakness(
                check: .deviceKey, place: key,
                problem: "the device key is on the same disk as the volume, and one failure can take both",
                advice: "keep a copy of it, or the recovery code, in another place")
        }
    }

    /// Whether a copy still exists, nobody can see from here. When it was made, and of what, is remembered.
    private func keybagCopy(_ found: FoundVolume?) -> Weakness? {
        guard let found else { return nil }
        let copy = KeybagCopyRecord(of: found.bag.volumeID)
        guard copy?.isCopy(of: found.bag) != true else { return nil }
        return Weakness(
            check: .keybagCopy, place: mount.source,
            problem: copy.map {
                "its keybag was changed after it was copied at \(WallClock.local($0.seconds)), so the copy has other keys or passphrases"
            } ?? "this machine knows no copy of its keybag, and without the keybag nothing in it can be decrypted",
            advice: "protectfs keybag export \(mount.source.word) FILE, with FILE on another disk")
    }

    private func passwordHash(_ found: FoundVolume?) -> Weakness? {
        guard let found, let cheap = CheapHashes(found.bag) else { return nil }
        return Weakness(
            check: .passwordHash, place: mount.source, problem: cheap.problem, advice: cheap.advice(mount.source))
    }

    /// The kernel caches a block device on its own, and a lock cannot drop that.
    private func loopDevices() -> [Weakness] {
        LoopDevice.over(mount.mountPoint).map { loop in
            Weakness(
                check: .loopDevice, place: loop.device,
                problem: "is over \(loop.file), so what was read of it can be read after a lock, too",
                advice: "detach it before a lock (unmount what is on it, then losetup -d \(loop.device))")
        }
    }

    private func weakDefaults() -> [Weakness] {
        var warnings = ClassCommands.DefaultWarnings()
        _ = try? ClassCommands.forEach([mount.mountPoint], isRecursive: true, withFlags: false) { entry, inherited in
            warnings.take(entry, inherited, ClassCommands.Difference(entry, inherited))
        }
        return warnings.weakDefaults.map { directory, given, strongest, count in
            Weakness(
                check: .weakDefault, place: directory,
                problem:
                    "new files get class \(given.canonicalName), weaker than \(count == 1 ? "a file" : "\(count) files") there",
                advice: "protectfs class set \(strongest.canonicalName) \(directory.word)")
        }
    }
}

/// What desktops note outside of the mount about its files: lists of recent files, and small pictures of contents.
struct DesktopTraces {
    /// The beginning of the URIs of files on the mount (RFC 8089).
    private let address: [UInt8]

    /// The most thumbnails that are read.
    private static let mostThumbnails = 20_000
    /// The text chunks of a thumbnail are near its beginning.
    private static let thumbnailHead = 4096

    init(_ mountPoint: HostPath) {
        address = Array("file://".utf8) + mountPoint.inURI + [UInt8(ascii: "/")]
    }

    func all() -> [Weakness] { [recentFiles(), thumbnails()].compactMap { $0 } }

    private func recentFiles() -> Weakness? {
        let list = SystemPaths.programData.appending("recently-used.xbel")
        // In XML, & and ' are escaped once more.
        let written = address.flatMap { byte -> [UInt8] in
            switch byte {
            case UInt8(ascii: "&"): Array("&amp;".utf8)
            case UInt8(ascii: "'"): Array("&apos;".utf8)
            default: [byte]
            }
        }
        guard let text = try? readFile(list, limit: 16 << 20), Self.contains(text, written) else { return nil }
        return Weakness(
            check: .recentFiles, place: list,
            problem: "the desktop's list of recent files has names of files on the mount in plain text",
            advice: "clear the list in the desktop's settings, and switch it off")
    }

    private func thumbnails() -> Weakness? {
        var cache = SystemPaths.home.appending(".cache")
        if let path = SystemPaths.environment("XDG_CACHE_HOME"), path.isAbsolute { cache = path }
        let place = cache.appending("thumbnails")
        let sizes = ["normal", "large", "x-large", "xx-large"].map { place.appending($0) }
        var (count, looked) = (0, 0)
        for directory in sizes {
            for name in (try? FileStatus.names(in: directory)) ?? [] where looked < Self.mostThumbnails {
                looked += 1
                let file = directory.appending(bytes: name.bytes)
                guard let open = try? Descriptor(opening: file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK),
                    let head = try? open.readAll(limit: Self.thumbnailHead)
                else { continue }
                if Self.contains(head, address) { count += 1 }
            }
        }
        guard count > 0 else { return nil }
        return Weakness(
            check: .thumbnails, place: place,
            problem: "\(count == 1 ? "a thumbnail shows" : "\(count) thumbnails show") contents of the mount",
            advice: "remove the directory, and switch thumbnails off for the mount in the desktop's settings")
    }

    private static func contains(_ text: [UInt8], _ part: [UInt8]) -> Bool {
        let (text, part) = (text.span, part.span)
        var at = 0
        while at + part.count <= text.count {
            var same = 0
            while same < part.count, text[at + same] == part[same] { same += 1 }
            if same == part.count { return true }
            at += 1
        }
        return false
    }
}
