// A tree of files in memory as a value, and the changes that turn one image into the next.

import BackingStore
import Glibc
import HostSystem

/// Objects by number; the root is 1. Numbers are never used again.
struct MemoryImage {
    static let pageSize: UInt64 = 4096

    /// One object.
    struct Object {
        var mode: UInt32
        var owner: UInt32
        var group: UInt32
        var links: UInt64
        var specialDevice: UInt64 = 0
        var accessed: Timestamp
        var modified: Timestamp
        var changed: Timestamp
        var attributes: [[UInt8]: [UInt8]] = [:]
        /// Of a regular file.
        var size: UInt64 = 0
        /// Pages that hold data. Bytes after `size` are zero, and no page is completely after it.
        var pages: [UInt64: [UInt8]] = [:]
        /// Of a symlink.
        var target: [UInt8] = []
        /// Of a directory.
        var entries: [EntryName: Entry] = [:]

        var kind: FileKind { FileKind(mode: mode) }
    }

    struct Entry {
        var object: Int
        /// Grows with every entry made: the listing's order and cookie.
        var serial: UInt64
    }

    /// The changes that can be made durable. All except `page` are metadata and reach the disk in order.
    enum Change {
        case make(parent: Int, EntryName, Int, Object)
        case makeNameless(Int, Object)
        case link(parent: Int, EntryName, Int)
        case unlink(parent: Int, EntryName)
        case rename(Int, EntryName, to: Int, EntryName, exchange: Bool)
        case resize(Int, UInt64)
        /// Whole pages that become holes.
        case punch(Int, Range<UInt64>)
        case update(Int, mode: UInt32?, owner: UInt32?, group: UInt32?, accessed: Timestamp?, modified: Timestamp?)
        case attribute(Int, [UInt8], [UInt8]?)
        /// The whole new content of one page.
        case page(Int, UInt64, [UInt8])

        /// The object whose own fsync this change has to obey; nil for changes of directories alone.
        var file: Int? {
            switch self {
            case .make, .makeNameless, .link, .unlink, .rename: nil
            case .resize(let object, _), .punch(let object, _), .update(let object, _, _, _, _, _),
                .attribute(let object, _, _), .page(let object, _, _):
                object
            }
        }

        /// The directories that this change alters.
        var directories: [Int] {
            switch self {
            case .make(let parent, _, _, _), .link(let parent, _, _), .unlink(let parent, _): [parent]
            case .rename(let from, _, let to, _, _): [from, to]
            default: []
            }
        }

        /// The pages of `file` that become holes, so that what is written there later is ordered after it.
        var droppedPages: Range<UInt64>? {
            switch self {
            case .resize(_, let size): (size + pageSize - 1) / pageSize..<UInt64.max
            case .punch(_, let pages): pages
            default: nil
            }
        }

        var isData: Bool {
            if case .page = self { return true }
            return false
        }
    }

    var objects: [Int: Object]
    var lastSerial: UInt64 = 0

    init(root: Object) {
        objects = [1: root]
    }

    /// Makes a change that has been checked. In an image after a crash, changes to objects that never arrived do nothing.
    mutating func apply(_ change: Change, at time: Timestamp) {
        if let file = change.file { objects[file]?.changed = time }
        for directory in change.directories {
            objects[directory]?.changed = time
            objects[directory]?.modified = time
        }
        switch change {
        case .make(let parent, let name, let number, let object):
            objects[number] = object
            put(number, parent, name)
            if object.kind == .directory { objects[parent]?.links += 1 }
        case .makeNameless(let number, let object):
            objects[number] = object
        case .link(let parent, let name, let number):
            objects[number]?.links += 1
            objects[number]?.changed = time
            put(number, parent, name)
        case .unlink(let parent, let name):
            take(parent, name)
        case .rename(let from, let name, let to, let newName, let exchange):
            guard let moved = objects[from]?.entries[name]?.object else { return }
            objects[moved]?.changed = time
            let other = objects[to]?.entries[newName]?.object
            let movedIsDirectory = objects[moved]?.kind == .directory
            if exchange, let other {
                objects[from]?.entries[name]?.object = other
                objects[to]?.entries[newName]?.object = moved
                if movedIsDirectory != (objects[other]?.kind == .directory) {
                    let (gains, loses) = movedIsDirectory ? (to, from) : (from, to)
                    objects[gains]?.links += 1
                    objects[loses]?.links -= 1
                }
            } else {
                if other != nil { take(to, newName) }
                objects[from]?.entries[name] = nil
                put(moved, to, newName)
                if movedIsDirectory {
                    objects[from]?.links -= 1
                    objects[to]?.links += 1
                }
            }
        case .resize(let file, let size):
            resize(file, size)
            objects[file]?.modified = time
        case .punch(let file, let pages):
            let kept = objects[file]?.pages.filter { !pages.contains($0.key) }
            objects[file]?.pages = kept ?? [:]
            objects[file]?.modified = time
        case .update(let number, let mode, let owner, let group, let accessed, let modified):
            if let mode, let old = objects[number]?.mode { objects[number]?.mode = old & ~0o7777 | mode & 0o7777 }
            if let owner { objects[number]?.owner = owner }
            if let group { objects[number]?.group = group }
            if let accessed { objects[number]?.accessed = accessed }
            if let modified { objects[number]?.modified = modified }
        case .attribute(let number, let name, let value):
            objects[number]?.attributes[name] = value
        case .page(let file, let index, let content):
            guard let size = objects[file]?.size, index * Self.pageSize < size else { return }
            objects[file]?.pages[index] = Self.clipped(content, to: size - index * Self.pageSize)
            objects[file]?.modified = time
        }
    }

    private mutating func put(_ number: Int, _ parent: Int, _ name: EntryName) {
        lastSerial += 1
        objects[parent]?.entries[name] = Entry(object: number, serial: lastSerial)
    }

    /// Removes an entry; the object stays, for handles on it.
    private mutating func take(_ parent: Int, _ name: EntryName) {
        guard let entry = objects[parent]?.entries.removeValue(forKey: name) else { return }
        if objects[entry.object]?.kind == .directory {
            objects[entry.object]?.links = 0
            objects[parent]?.links -= 1
        } else {
            objects[entry.object]?.links -= 1
        }
    }

    private mutating func resize(_ file: Int, _ size: UInt64) {
        guard let old = objects[file]?.size else { return }
        objects[file]?.size = size
        guard size < old else { return }
        let kept = objects[file]?.pages.filter { $0.key * Self.pageSize < size }
        objects[file]?.pages = kept ?? [:]
        let last = size / Self.pageSize
        if let content = objects[file]?.pages[last] {
            objects[file]?.pages[last] = Self.clipped(content, to: size - last * Self.pageSize)
        }
    }

    /// The page with everything from `length` on zero, as the kernel leaves it behind the end of a file.
    private static func clipped(_ page: [UInt8], to length: UInt64) -> [UInt8] {
        guard length < pageSize else { return page }
        return Array(page.prefix(Int(length))) + [UInt8](repeating: 0, count: Int(pageSize - length))
    }
}
