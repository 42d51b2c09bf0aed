// A directory of a `MemoryStore`, with the rules of rename(2), unlink(2) and rmdir(2) as Linux keeps them.

import BackingStore
import Glibc
import HostSystem

/// An open directory in memory.
final class MemoryDirectory: BackingDirectory, @unchecked Sendable {
    let store: MemoryStore
    let number: Int

    init(_ store: MemoryStore, _ number: Int) {
        self.store = store
        self.number = number
        super.init(MemoryObject(store, number))
    }

    deinit {
        store.unlock(number, ObjectIdentifier(self))
    }

    override var keepsNewLinks: Bool { store.state.withLock { $0.keepsNewLinks } }

    override var listsAllAttributes: Bool { store.state.withLock { $0.listsAllAttributes } }

    override var syncsWhole: Bool { store.state.withLock { $0.syncsWhole } }

    // MARK: Opening

    override func reopen() throws(Errno) -> BackingDirectory {
        _ = try store.object(number, .openDirectory)
        return MemoryDirectory(store, number)
    }

    override func openDirectory(_ name: EntryName) throws(Errno) -> BackingDirectory {
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.openDirectory, number)
            let (child, kind) = try state.find(name, in: number)
            guard kind == .directory else { throw kind == .symlink ? .ELOOP : .ENOTDIR }
            return MemoryDirectory(store, child)
        }
    }

    override func openFile(_ name: EntryName, _ access: FileAccess) throws(Errno) -> BackingFile {
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.openFile, number)
            let (child, kind) = try state.find(name, in: number)
            try checkIsFile(kind)
            return MemoryFile(store, child, access)
        }
    }

    override func node(_ name: EntryName) throws(Errno) -> BackingNode {
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.openNode, number)
            return BackingNode(MemoryObject(store, try state.find(name, in: number).object))
        }
    }

    /// `.` and `..` come last, so cookies begin with 1 elsewhere, as on many FUSE file systems.
    override func list(from cookie: UInt64, _ body: (ListedObject, UInt64) -> Bool) throws(Errno) {
        let entries = try store.state.withLock { (state) throws(Errno) -> [(ListedObject, UInt64)] in
            try state.enter(.list, number)
            guard let directory = state.live.objects[number] else { throw .ESTALE }
            return directory.entries.sorted { $0.value.serial < $1.value.serial }
                .map {
                    let kind = state.live.objects[$0.value.object]?.kind ?? .unknown
                    let entry = DirectoryEntry(name: $0.key, inode: UInt64($0.value.object), kind: kind)
                    return (.entry(entry), $0.value.serial)
                }
        }
        let end = UInt64(Int64.max)
        let all = entries + [(.itself, end - 1), (.parent, end)]
        for (object, serial) in all where serial > cookie && !body(object, serial) { return }
    }

    // MARK: Changing entries

    override func createFile(_ name: EntryName, mode: UInt32) throws(Errno) -> BackingFile {
        MemoryFile(
            store, try make(name, .createFile, mode: FileKind.regular.modeBits | mode & 0o7777), .readWrite)
    }

    override func createNamelessFile(mode: UInt32) throws(Errno) -> BackingFile {
        let mode = FileKind.regular.modeBits | mode & 0o7777
        return MemoryFile(store, try make(nil, .createFile, mode: mode), .readWrite)
    }

    override func createDirectory(_ name: EntryName, mode: UInt32) throws(Errno) {
        _ = try make(name, .createDirectory, mode: FileKind.directory.modeBits | mode & 0o7777)
    }

    override func createSymlink(_ name: EntryName, target: [UInt8]) throws(Errno) {
        guard !target.contains(0) else { throw .EINVAL }
        guard !target.isEmpty else { throw .ENOENT }
        guard target.count < 4096 else { throw .ENAMETOOLONG }
        _ = try make(name, .createSymlink, mode: FileKind.symlink.modeBits | 0o777, target: target)
    }

    override func createSpecial(_ name: EntryName, mode: UInt32, device: UInt64) throws(Errno) {
        let mode = mode & 0o170000 == 0 ? mode | FileKind.regular.modeBits : mode
        guard FileKind(mode: mode) != .directory, FileKind(mode: mode) != .symlink else { throw .EPERM }
        _ = try make(name, .createSpecial, mode: mode, device: device)
    }

    private func make(
        _ name: EntryName?, _ call: StoreCall, mode: UInt32, device: UInt64 = 0, target: [UInt8] = []
    ) throws(Errno) -> Int {
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(call, number)
            guard let parent = state.live.objects[number], parent.links > 0 else { throw .ENOENT }
            if let name, parent.entries[name] != nil { throw .EEXIST }
            let time = state.now()
            let isDirectory = FileKind(mode: mode) == .directory
            let inheritsGroup = parent.mode & 0o2000 != 0
            let object = MemoryImage.Object(
                mode: isDirectory && inheritsGroup ? mode | 0o2000 : mode, owner: geteuid(),
                group: inheritsGroup ? parent.group : getegid(), links: name == nil ? 0 : isDirectory ? 2 : 1,
                specialDevice: device,
                accessed: time, modified: time, changed: time, target: target)
            let child = state.nextObject
            state.nextObject += 1
            state.make(name.map { .make(parent: number, $0, child, object) } ?? .makeNameless(child, object))
            if let lost = state.takePartial() { throw lost.error }
            return child
        }
    }

    override func readSymlink(_ name: EntryName) throws(Errno) -> [UInt8] {
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.readSymlink, number)
            let (child, kind) = try state.find(name, in: number)
            guard kind == .symlink else { throw .EINVAL }
            return state.live.objects[child]?.target ?? []
        }
    }

    override func rename(
        _ name: EntryName, to directory: BackingDirectory, _ newName: EntryName, mode: RenameMode
    ) throws(Errno) {
        guard let directory = directory as? MemoryDirectory, directory.store === store else { throw .EXDEV }
        if mode.leavesWhiteout { throw .EINVAL }
        store.beforeRename.withLock { $0.take() }?()
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.rename, number)
            let (moved, kind) = try state.find(name, in: number)
            guard let target = state.live.objects[directory.number], target.links > 0 else { throw .ENOENT }
            let other = target.entries[newName]?.object
            if mode == .exchange, other == nil { throw .ENOENT }
            if mode == .noReplace, other != nil { throw .EEXIST }
            if kind == .directory, state.isInside(directory.number, moved) { throw .EINVAL }
            if let other, let replaced = state.live.objects[other] {
                if mode == .exchange {
                    if replaced.kind == .directory, state.isInside(number, other) { throw .EINVAL }
                } else {
                    if other == moved { return }
                    // An ancestor of the moved object is never empty.
                    if replaced.kind == .directory, state.isInside(number, other) { throw .ENOTEMPTY }
                    if kind == .directory, replaced.kind != .directory { throw .ENOTDIR }
                    if kind != .directory, replaced.kind == .directory { throw .EISDIR }
                    if !replaced.entries.isEmpty { throw .ENOTEMPTY }
                }
            }
            state.make(.rename(number, name, to: directory.number, newName, exchange: mode == .exchange))
            if let lost = state.takePartial() { throw lost.error }
        }
    }

    override func link(_ name: EntryName, to directory: BackingDirectory, _ newName: EntryName) throws(Errno) {
        guard let directory = directory as? MemoryDirectory, directory.store === store else { throw .EXDEV }
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.link, number)
            let (child, kind) = try state.find(name, in: number)
            guard kind != .directory else { throw .EPERM }
            try state.link(child, to: directory, newName)
        }
    }

    override func unlink(_ name: EntryName) throws(Errno) {
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.unlink, number)
            guard try state.find(name, in: number).kind != .directory else { throw .EISDIR }
            state.make(.unlink(parent: number, name))
            if let lost = state.takePartial() { throw lost.error }
        }
    }

    override func removeDirectory(_ name: EntryName) throws(Errno) {
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.removeDirectory, number)
            let (child, kind) = try state.find(name, in: number)
            guard kind == .directory else { throw .ENOTDIR }
            guard state.live.objects[child]?.entries.isEmpty ?? true else { throw .ENOTEMPTY }
            state.make(.unlink(parent: number, name))
            if let lost = state.takePartial() { throw lost.error }
        }
    }

    // MARK: The store

    override func synchronize() throws(Errno) {
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.synchronizeDirectory, number)
            state.force(number, dataOnly: false)
        }
    }

    override func synchronizeStore() throws(Errno) {
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.synchronizeStore, number)
            if state.syncsWhole { state.makeDurable() }
        }
    }

    override func statistics() throws(Errno) -> StoreStatistics {
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.statistics, number)
            let free = state.freeBytes / 4096
            return StoreStatistics(
                blockSize: 4096, fragmentSize: 4096, blocks: 1 << 28, blocksFree: free, blocksAvailable: free,
                files: 1 << 20, filesFree: 1 << 20 - UInt64(state.live.objects.count), nameLength: 255)
        }
    }

    override func lock(exclusive: Bool) throws(Errno) {
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.lock, number)
            guard state.lock(number, ObjectIdentifier(self), exclusive: exclusive) else { throw .EAGAIN }
        }
    }
}

extension MemoryStore {
    /// Removes a handle and its flock.
    func unlock(_ number: Int, _ handle: ObjectIdentifier) {
        _ = state.withLock { $0.contentLocks?[number]?.removeValue(forKey: handle) }
        if state.withLock({ $0.locks[number]?.removeValue(forKey: handle) }) != nil { unlocked.broadcast() }
    }
}

extension MemoryStore.State {
    /// Takes a flock for a handle; false when another handle's is in the way.
    mutating func lock(_ number: Int, _ handle: ObjectIdentifier, exclusive: Bool) -> Bool {
        let others = (locks[number] ?? [:]).filter { $0.key != handle }
        if others.contains(where: { exclusive || $0.value }) { return false }
        locks[number, default: [:]][handle] = exclusive
        return true
    }

    func find(_ name: EntryName, in directory: Int) throws(Errno) -> (object: Int, kind: FileKind) {
        guard let child = live.objects[directory]?.entries[name]?.object, let kind = live.objects[child]?.kind else {
            throw .ENOENT
        }
        return (child, kind)
    }

    /// Whether `directory` is `ancestor` or below it.
    func isInside(_ directory: Int, _ ancestor: Int) -> Bool {
        // Not by one call for each level, because a stack has an end.
        var waiting = [ancestor]
        while let next = waiting.popLast() {
            if next == directory { return true }
            guard let object = live.objects[next], object.kind == .directory else { continue }
            waiting += object.entries.values.map(\.object)
        }
        return false
    }
}

extension MemoryStore.State {
    /// Gives an object that is not a directory another name.
    mutating func link(_ object: Int, to directory: MemoryDirectory, _ name: EntryName) throws(Errno) {
        guard let target = live.objects[directory.number], target.links > 0 else { throw .ENOENT }
        guard target.entries[name] == nil else { throw .EEXIST }
        make(.link(parent: directory.number, name, object))
        if let lost = takePartial() { throw lost.error }
    }
}
