// A whole volume over a store in memory or on disk, for the tests of names, nodes and the facade.

import BackingStore
@testable import MemoryStore
import Glibc
import KeyFiles
import Keybag
import HostSystem
import SodiumKit
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

/// Keys of a test volume; survives mounts and power cuts.
final class TestKeys: Sendable {
    static let shared = Result { try TestKeys() }

    let bag: Keybag
    let device: Lock<SecretKey>
    let keys: Lock<VolumeKeys>

    init(_ suite: CipherSuite = .aes256GCM) throws {
        let text = Array("p".utf8)
        let device = try SecretKey.random()
        let new = try Keybag.create(
            suite: suite, passphrase: try SecretBytes(copying: text.span), deviceKey: device,
            cost: Argon2Parameters(passes: 1, memory: 8 << 20))
        bag = new.bag
        keys = Lock(try new.keys.copy())
        self.device = Lock(try device.copy())
    }

    /// A ring before first unlock.
    func ring(isPublicKeyProven: Bool = true) throws -> KeyRing {
        let opened = try device.withLock { device throws(KeybagError) in try bag.open(deviceKey: device) }
        return try KeyRing(bag, device: opened, isPublicKeyProven: isPublicKeyProven)
    }

    func unlock(_ ring: KeyRing) throws {
        let copy = try keys.withLock { keys throws(SodiumError) in try keys.copy() }
        _ = try ring.unlock(with: copy)
    }
}

/// A volume with its store, its state file and its reports.
final class TestVolume: Sendable {
    let keys: TestKeys
    let directory: BackingDirectory
    let states: MemoryStore
    let volume: Volume
    let notices = Lock<[String]>([])

    /// A new volume in `directory`.
    convenience init(_ directory: BackingDirectory = MemoryStore().root, unlocked: Bool = true) throws {
        // One keybag for all tests: the password hash is what takes time here.
        let keys = try TestKeys.shared.get()
        let states = MemoryStore()
        try NewVolume.tryStore(directory)
        let ring = try keys.ring()
        try NewVolume.writeRootRecord(in: directory, keys: ring.metadata)
        try StateFileStore(directory: states.root, volumeID: ring.volumeID).update { state in
            state = StateFile(pinning: keys.bag, toleratesEverything: false)
        }
        try self.init(keys, directory, states, unlocked: unlocked)
    }

    /// A mount of a volume that exists.
    init(
        _ keys: TestKeys, _ directory: BackingDirectory, _ states: MemoryStore, unlocked: Bool = true,
        options: VolumeOptions = VolumeOptions(), ring known: KeyRing? = nil
    ) throws {
        self.keys = keys
        self.directory = directory
        self.states = states
        let ring = try known ?? keys.ring()
        if unlocked, known == nil { try keys.unlock(ring) }
        let notices = notices
        volume = try Volume(
            directory: directory.reopen(), keys: ring,
            state: StateFileStore(directory: states.root, volumeID: ring.volumeID), options: options
        ) { notice in notices.withLock { $0.append("\(notice)") } }
    }

    /// The same volume mounted again over another state of its store, as after a crash.
    func mountAgain(
        _ directory: BackingDirectory, unlocked: Bool = true, options: VolumeOptions = VolumeOptions()
    ) throws -> TestVolume {
        try TestVolume(keys, directory, states, unlocked: unlocked, options: options)
    }

    func lock() {
        #expect(volume.lockUnmounted())
    }

    func unlock() throws {
        let copy = try keys.keys.withLock { keys throws(SodiumError) in try keys.copy() }
        _ = try volume.unlock(with: copy)
    }

    // MARK: paths

    static let caller = Caller(user: getuid(), group: getgid(), mask: 0o022)

    func split(_ path: String) -> [[UInt8]] {
        path.split(separator: "/").map { Array($0.utf8) }
    }

    func walk(_ components: some Collection<[UInt8]>) throws(VolumeError) -> Node {
        var node = volume.root
        for component in components { node = try volume.lookup(component, in: node).node }
        return node
    }

    func node(_ path: String) throws(VolumeError) -> Node { try walk(split(path)) }

    func parent(_ path: String) throws(VolumeError) -> (Node, [UInt8]) {
        let all = split(path)
        return (try walk(all.dropLast()), all.last ?? [])
    }

    func write(_ path: String, _ text: String = "x") throws(VolumeError) {
        let (parent, name) = try parent(path)
        let (entry, content) = try volume.create(name, in: parent, mode: 0o644, caller: Self.caller)
        let bytes = Array(text.utf8)
        defer { volume.release(entry.node, writable: true) }
        try content.write(bytes.span, at: 0)
    }

    func read(_ path: String) throws(VolumeError) -> String {
        do throws(VolumeError) {
            return try read(node(path))
        } catch {
            // As the kernel does: the name is looked up again.
            guard case .refused(.ESTALE) = error else { throw error }
            return try read(node(path))
        }
    }

    func read(_ node: Node) throws(VolumeError) -> String {
        let content = try volume.open(node, writable: false)
        defer { volume.release(node, writable: false) }
        return try Self.bytes(of: content)
    }

    static func bytes(of content: FileContent) throws(VolumeError) -> String {
        let count = Int(min(content.size + 1, 4096))
        var buffer = [UInt8](repeating: 0, count: FileContent.bufferLength(count: count))
        var raw = buffer.mutableSpan
        let result = try content.read(into: &raw, at: 0, count: count)
        let text = raw.span.extracting(result.range).copiedBytes()
        result.finish()
        return String(decoding: text, as: UTF8.self)
    }

    @discardableResult
    func mkdir(_ path: String) throws(VolumeError) -> Node {
        let (parent, name) = try parent(path)
        return try volume.mkdir(name, in: parent, mode: 0o755, caller: Self.caller).node
    }

    func unlink(_ path: String) throws(VolumeError) {
        let (parent, name) = try parent(path)
        try volume.unlink(name, in: parent)
    }

    func rmdir(_ path: String) throws(VolumeError) {
        let (parent, name) = try parent(path)
        try volume.rmdir(name, in: parent)
    }

    func rename(_ old: String, _ new: String, _ mode: RenameMode = .replace) throws(VolumeError) {
        let (parent, name) = try parent(old)
        let (newParent, newName) = try self.parent(new)
        try volume.rename(name, in: parent, to: newName, in: newParent, mode: mode)
    }

    func setClass(_ path: String, _ value: String) throws(VolumeError) {
        try volume.setXattr(
            node(path), Array("user.protection".utf8), value: Array(value.utf8), mode: .set)
    }

    func getClass(_ path: String) throws(VolumeError) -> String {
        String(decoding: try volume.getXattr(node(path), Array("user.protection".utf8)), as: UTF8.self)
    }

    /// Names in a directory, sorted, without `.` and `..`; a few at a time, as the kernel asks.
    func list(_ node: Node, attributes: ListedAttributes = .none, step: Int = 3) throws(VolumeError) -> [[UInt8]] {
        var names: [[UInt8]] = []
        var cookie: UInt64 = 0
        while true {
            var taken = 0
            var last = cookie
            try volume.list(node, from: cookie, attributes: attributes) { entry in
                if taken == step { return false }
                taken += 1
                last = entry.next
                names.append(entry.name)
                if let node = entry.entry?.node { volume.forget(node, count: 1) }
                return true
            }
            if taken == 0 { break }
            cookie = last
        }
        return names.filter { $0 != Array(".".utf8) && $0 != Array("..".utf8) }.sorted {
            $0.lexicographicallyPrecedes($1)
        }
    }

    func list(_ path: String) throws(VolumeError) -> [String] {
        try list(node(path)).map { String(decoding: $0, as: UTF8.self) }
    }

    /// Backing entry of a path.
    func backing(_ path: String) throws(VolumeError) -> (BackingDirectory, EntryName) {
        let (parent, name) = try parent(path)
        let directory = try volume.directory(parent)
        return (directory, try volume.locate(name, in: parent, directory).name.entry)
    }
}
