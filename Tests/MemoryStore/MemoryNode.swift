// Handles on the objects of a `MemoryStore`.

import BackingStore
import Glibc
import HostSystem

/// The operations of every handle, by object number.
extension MemoryStore {
    func object(_ number: Int, _ call: StoreCall) throws(Errno) -> MemoryImage.Object {
        try state.withLock { (state) throws(Errno) in
            try state.enter(call, number)
            guard let object = state.live.objects[number] else { throw .ESTALE }
            return object
        }
    }

    func status(_ number: Int) throws(Errno) -> Status {
        let object = try object(number, .status)
        let size =
            switch object.kind {
            case .regular: object.size
            case .symlink: UInt64(object.target.count)
            case .directory: UInt64(4096)
            default: UInt64(0)
            }
        return Status(
            device: device, inode: UInt64(number), mode: object.mode, links: object.links, owner: object.owner,
            group: object.group, specialDevice: object.specialDevice, size: size,
            blocks: UInt64(object.pages.count) * 8, blockSize: 4096, accessed: object.accessed,
            modified: object.modified, changed: object.changed)
    }

    func change(_ number: Int, _ call: StoreCall, _ change: MemoryImage.Change) throws(Errno) {
        try state.withLock { (state) throws(Errno) in
            try state.enter(call, number)
            state.make(change)
        }
    }

    func setMode(_ number: Int, _ mode: UInt32) throws(Errno) {
        let kind = state.withLock { $0.live.objects[number]?.kind }
        guard kind != .symlink else { throw .EOPNOTSUPP }
        try change(
            number, .setMode,
            .update(number, mode: mode, owner: nil, group: nil, accessed: nil, modified: nil))
    }

    func setOwner(_ number: Int, _ owner: UInt32?, _ group: UInt32?) throws(Errno) {
        try change(
            number, .setOwner,
            .update(number, mode: nil, owner: owner, group: group, accessed: nil, modified: nil))
    }

    func setTimes(_ number: Int, _ accessed: TimeChange, _ modified: TimeChange) throws(Errno) {
        try state.withLock { (state) throws(Errno) in
            try state.enter(.setTimes, number)
            let now = state.now()
            func time(_ change: TimeChange) -> Timestamp? {
                switch change {
                case .keep: nil
                case .now: now
                case .set(let time): time
                }
            }
            state.make(
                .update(
                    number, mode: nil, owner: nil, group: nil, accessed: time(accessed), modified: time(modified)))
        }
    }

    func attribute(_ number: Int, _ name: [UInt8]) throws(Errno) -> [UInt8] {
        guard let value = try object(number, .getAttribute).attributes[name] else { throw .ENODATA }
        return value
    }

    func attributeNames(_ number: Int) throws(Errno) -> [[UInt8]] {
        let names = try object(number, .listAttributes).attributes.keys.sorted { $0.lexicographicallyPrecedes($1) }
        return state.withLock { $0.listsAllAttributes } ? names : names.filter { !$0.starts(with: "trusted.".utf8) }
    }

    func setAttribute(
        _ number: Int, _ name: [UInt8], _ value: [UInt8]?, mode: AttributeMode
    ) throws(Errno) {
        try state.withLock { (state) throws(Errno) in
            try state.enter(value == nil ? .removeAttribute : .setAttribute, number)
            guard let object = state.live.objects[number] else { throw .ESTALE }
            guard !name.isEmpty, !name.contains(0) else { throw .EINVAL }
            if name.starts(with: Array("user.".utf8)), object.kind != .regular, object.kind != .directory {
                throw .EPERM
            }
            let exists = object.attributes[name] != nil
            if exists, mode == .create { throw .EEXIST }
            if !exists, mode == .replace { throw .ENODATA }
            state.make(.attribute(number, name, value))
            if let lost = state.takePartial() { throw lost.error }
        }
    }
}

/// An object, whatever the handle on it.
final class MemoryObject: BackingObject, @unchecked Sendable {
    let store: MemoryStore
    let number: Int

    init(_ store: MemoryStore, _ number: Int) {
        self.store = store
        self.number = number
        super.init()
    }

    override func status() throws(Errno) -> Status { try store.status(number) }
    override func setMode(_ mode: UInt32) throws(Errno) { try store.setMode(number, mode) }
    override func setOwner(_ owner: UInt32?, group: UInt32?) throws(Errno) {
        try store.setOwner(number, owner, group)
    }
    override func setTimes(accessed: TimeChange, modified: TimeChange) throws(Errno) {
        store.beforeSetTimes.withLock { $0.take() }?()
        try store.setTimes(number, accessed, modified)
    }
    override func flags() throws(Errno) -> InodeFlags {
        store.beforeFlags.withLock { $0.take() }?()
        throw .ENOTTY
    }
    override func attribute(_ name: [UInt8]) throws(Errno) -> [UInt8] { try store.attribute(number, name) }
    override func setAttribute(_ name: [UInt8], _ value: [UInt8], mode: AttributeMode) throws(Errno) {
        try store.setAttribute(number, name, value, mode: mode)
    }
    override func removeAttribute(_ name: [UInt8]) throws(Errno) {
        try store.setAttribute(number, name, nil, mode: .replace)
    }
    override func attributeNames() throws(Errno) -> [[UInt8]] { try store.attributeNames(number) }
    override func openFile(_ access: FileAccess) throws(Errno) -> BackingFile {
        try checkIsFile(store.object(number, .openFile).kind)
        return MemoryFile(store, number, access)
    }
}

/// An open regular file.
final class MemoryFile: BackingFile, @unchecked Sendable {
    let store: MemoryStore
    let number: Int
    let access: FileAccess

    init(_ store: MemoryStore, _ number: Int, _ access: FileAccess) {
        self.store = store
        self.number = number
        self.access = access
        super.init(MemoryObject(store, number))
    }

    deinit {
        store.unlock(number, ObjectIdentifier(self))
    }

    override func lock(exclusive: Bool) throws(Errno) {
        try store.state.withLock { (state) throws(Errno) in try state.enter(.lock, number) }
        let me = ObjectIdentifier(self)
        _ = store.state.wait(on: store.unlocked) { state in state.lock(number, me, exclusive: exclusive) ? true : nil }
    }

    override func setLock(_ kind: StoreLock, _ range: ClosedRange<UInt64>, waits: Bool) throws(Errno) {
        guard range == LockRange.content else { return }
        let me = ObjectIdentifier(self)
        try store.state.withLock { (state) throws(Errno) in
            guard var holders = state.contentLocks?[number] ?? (state.contentLocks == nil ? nil : [:]) else { return }
            holders[me] = nil
            if kind != .none {
                guard kind == .shared ? !holders.values.contains(true) : holders.isEmpty else { throw .EAGAIN }
                holders[me] = kind == .exclusive
            }
            state.contentLocks?[number] = holders
        }
    }

    override func link(to directory: BackingDirectory, _ newName: EntryName) throws(Errno) {
        guard let directory = directory as? MemoryDirectory, directory.store === store else { throw .EXDEV }
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.link, number)
            try state.link(number, to: directory, newName)
        }
    }

    private static let pageSize = Int(MemoryImage.pageSize)

    override func read(into buffer: inout MutableSpan<UInt8>, at offset: UInt64) throws(Errno) -> Int {
        _ = try checkedOffset(offset, plus: UInt64(buffer.count))
        let wanted = buffer.count
        let bytes = try store.state.withLock { (state) throws(Errno) -> [UInt8] in
            try state.enter(.read, number, at: offset, length: UInt64(wanted))
            let wanted = min(wanted, state.takePartial()?.bytes ?? wanted)
            guard let object = state.live.objects[number] else { throw .ESTALE }
            guard offset < object.size else { return [] }
            let end = min(object.size, offset + UInt64(wanted))
            var bytes: [UInt8] = []
            bytes.reserveCapacity(Int(end - offset))
            var place = offset
            while place < end {
                let start = Int(place % MemoryImage.pageSize)
                let count = min(Self.pageSize - start, Int(end - place))
                if let page = object.pages[place / MemoryImage.pageSize] {
                    bytes.append(contentsOf: page[start..<start + count])
                } else {
                    bytes.append(contentsOf: repeatElement(0, count: count))
                }
                place += UInt64(count)
            }
            return bytes
        }
        unsafe buffer.withUnsafeMutableBytes { unsafe $0.copyBytes(from: bytes) }
        return bytes.count
    }

    override func write(_ bytes: Span<UInt8>, at offset: UInt64) throws(Errno) {
        guard access == .readWrite else { throw .EBADF }
        _ = try checkedOffset(offset, plus: UInt64(bytes.count))
        let content = unsafe bytes.withUnsafeBytes { unsafe [UInt8]($0) }
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.write, number, at: offset, length: UInt64(content.count))
            guard let size = state.live.objects[number]?.size else { throw .ESTALE }
            guard !content.isEmpty else { return }
            let partial = state.takePartial()
            let length = min(content.count, partial?.bytes ?? content.count)
            let end = offset + UInt64(length)
            if end > size { state.make(.resize(number, end)) }
            var done = 0
            while done < length {
                let place = offset + UInt64(done)
                let start = Int(place % MemoryImage.pageSize)
                let count = min(Self.pageSize - start, length - done)
                let index = place / MemoryImage.pageSize
                let old = state.live.objects[number]?.pages[index]
                if old == nil {
                    guard state.freeBytes >= MemoryImage.pageSize else { throw .ENOSPC }
                    state.freeBytes -= MemoryImage.pageSize
                }
                var page = old ?? [UInt8](repeating: 0, count: Self.pageSize)
                page.replaceSubrange(start..<start + count, with: content[done..<done + count])
                state.make(.page(number, index, page))
                done += count
            }
            if let partial { throw partial.error }
        }
    }

    override func truncate(to length: UInt64) throws(Errno) {
        guard access == .readWrite else { throw .EINVAL }
        _ = try checkedOffset(length, plus: 0)
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.truncate, number, at: length)
            state.make(.resize(number, length))
        }
    }

    override func synchronize(dataOnly: Bool) throws(Errno) {
        store.beforeSync.withLock { $0.take() }?()
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(dataOnly ? .fdatasync : .fsync, number)
            state.force(number, dataOnly: dataOnly)
        }
    }

    override func allocate(at offset: UInt64, length: UInt64) throws(Errno) {
        guard access == .readWrite else { throw .EBADF }
        _ = try checkedOffset(offset, plus: length)
        guard length > 0 else { throw .EINVAL }
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.allocate, number, at: offset, length: length)
        }
    }

    override func punchHole(at offset: UInt64, length: UInt64) throws(Errno) {
        guard access == .readWrite else { throw .EBADF }
        _ = try checkedOffset(offset, plus: length)
        guard length > 0 else { throw .EINVAL }
        try store.state.withLock { (state) throws(Errno) in
            try state.enter(.punch, number, at: offset, length: length)
            let end = offset + length
            let pageSize = MemoryImage.pageSize
            let whole = (offset + pageSize - 1) / pageSize..<max((offset + pageSize - 1) / pageSize, end / pageSize)
            for index in [offset / pageSize, end / pageSize] where !whole.contains(index) {
                guard var page = state.live.objects[number]?.pages[index] else { continue }
                let first = max(offset, index * pageSize) - index * pageSize
                let last = min(end, (index + 1) * pageSize) - index * pageSize
                guard first < last else { continue }
                for place in first..<last { page[Int(place)] = 0 }
                state.make(.page(number, index, page))
            }
            if !whole.isEmpty { state.make(.punch(number, whole)) }
        }
    }

    override func nextData(from offset: UInt64) throws(Errno) -> UInt64 {
        let object = try store.object(number, .seek)
        guard offset < object.size else { throw .ENXIO }
        let page = offset / MemoryImage.pageSize
        guard let next = object.pages.keys.filter({ $0 >= page }).min() else { throw .ENXIO }
        return max(offset, next * MemoryImage.pageSize)
    }

    override func nextHole(from offset: UInt64) throws(Errno) -> UInt64 {
        let object = try store.object(number, .seek)
        guard offset < object.size else { throw .ENXIO }
        var page = offset / MemoryImage.pageSize
        while object.pages[page] != nil { page += 1 }
        return min(object.size, max(offset, page * MemoryImage.pageSize))
    }
}
