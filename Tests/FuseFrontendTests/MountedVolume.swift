// A new volume in a temporary directory, mounted by this process: the front end without its daemon.

import BackingStore
@testable import MemoryStore
import CLinuxShim
import FuseFrontend
import Glibc
import KeyFiles
import Keybag
import HostSystem
import ProtectedVolume
import SodiumKit
import VolumeFormat

let hasFuse = unsafe access("/dev/fuse", R_OK | W_OK) == 0

final class MountedVolume: Sendable {
    let path: String
    let backing: String
    let frontend: Frontend
    let volume: Volume
    let events = Lock<[FrontendEvent]>([])
    let lines = Lock<[String]>([])
    private let keys: Lock<VolumeKeys>

    init(options: [String] = []) throws {
        var template = Array("/tmp/frontend.XXXXXX".utf8CString)
        let base = unsafe String(cString: mkdtemp(&template))
        path = base + "/mount"
        backing = base + "/backing"
        unsafe mkdir(path, 0o700)
        unsafe mkdir(backing, 0o700)
        let text = Array("p".utf8)
        let device = try SecretKey.random()
        let new = try Keybag.create(
            suite: .aes256GCM, passphrase: try SecretBytes(copying: text.span), deviceKey: device,
            cost: Argon2Parameters(passes: 1, memory: 8 << 20))
        keys = Lock(try new.keys.copy())
        let ring = try KeyRing(
            new.bag, device: try new.bag.open(deviceKey: device), isPublicKeyProven: true)
        _ = try ring.unlock(with: try new.keys.copy())
        let directory = try HostDirectory.open(path: backing)
        try NewVolume.writeRootRecord(in: directory, keys: ring.metadata)
        let states = MemoryStore()
        let store = StateFileStore(directory: states.root, volumeID: ring.volumeID)
        _ = try store.update { state in state = StateFile(pinning: new.bag, toleratesEverything: false) }
        let options = try MountOptions.parse(options)
        volume = try Volume.open(directory: directory, keys: ring, state: store, options: options.volume)
        let (events, lines) = (events, lines)
        frontend = Frontend(
            volume: volume, options: options, source: HostPath(backing),
            log: { line in lines.withLock { $0.append(line) } },
            events: { event in events.withLock { $0.append(event) } })
        try frontend.mount(at: path)
    }

    func unlock() throws {
        _ = try frontend.unlock(with: try keys.withLock { keys throws(SodiumError) in try keys.copy() })
    }

    /// Unmounts and removes everything; false if the mount was busy.
    func end() throws -> Bool {
        // As unmounting does: the front end's own calls on the mount come to their end.
        frontend.settle()
        var isClean = unsafe umount2(path, 0) == 0
        // Another test of this process may be starting a program, which has all open files for a moment.
        for _ in 0..<500 where !isClean && errno == EBUSY {
            usleep(20_000)
            isClean = unsafe umount2(path, 0) == 0
        }
        if !isClean { unsafe umount2(path, Int32(MNT_DETACH)) }
        frontend.wait()
        frontend.close()
        try volume.close()
        remove(backing)
        unsafe rmdir(path)
        unsafe rmdir(String(path.dropLast("/mount".count)))
        return isClean
    }

    private func remove(_ directory: String) {
        if let stream = unsafe opendir(directory) {
            while let entry = unsafe readdir(stream) {
                let name = unsafe withUnsafeBytes(of: &entry.pointee.d_name) {
                    unsafe String(decoding: $0.prefix { $0 != 0 }, as: UTF8.self)
                }
                if name == "." || name == ".." { continue }
                let path = directory + "/" + name
                if unsafe unlink(path) != 0 { remove(path) }
            }
            unsafe closedir(stream)
        }
        unsafe rmdir(directory)
    }
}

/// Writes a whole file; the errno, or 0.
func put(_ path: String, _ text: String) -> Int32 {
    let handle = unsafe open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0o644)
    guard handle >= 0 else { return errno }
    defer { close(handle) }
    let bytes = Array(text.utf8)
    return unsafe write(handle, bytes, bytes.count) == bytes.count ? 0 : errno
}

/// Reads a handle from its start; nil with errno set.
func get(_ handle: Int32) -> String? {
    var bytes = [UInt8](repeating: 0, count: 1 << 16)
    let count = unsafe pread(handle, &bytes, bytes.count, 0)
    return count < 0 ? nil : String(decoding: bytes.prefix(count), as: UTF8.self)
}

/// Reads a file by path; nil with errno set.
func get(_ path: String) -> String? {
    let handle = unsafe open(path, O_RDONLY)
    guard handle >= 0 else { return nil }
    defer { close(handle) }
    return get(handle)
}

func setClass(_ path: String, _ name: String) -> Int32 {
    let value = Array(name.utf8)
    return unsafe setxattr(path, "user.protection", value, value.count, 0) == 0 ? 0 : errno
}

func attribute(_ path: String, _ name: String) -> String? {
    var value = [UInt8](repeating: 0, count: 256)
    let count = unsafe getxattr(path, name, &value, value.count)
    return count < 0 ? nil : String(decoding: value.prefix(count), as: UTF8.self)
}
