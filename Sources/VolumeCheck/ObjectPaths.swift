// The paths of what a check looks at. Each object knows its own name and its directory, so trees of any depth take one name for each
// directory; the text is made when something is said.

internal import BackingStore
internal import HostSystem
internal import ProtectedVolume

/// A path in a tree, as a chain of names.
final class TreePath: Sendable {
    /// The longest text that has all names: PATH_MAX, because no program can use a longer path.
    static let longest = 4096
    /// What replaces names in the middle of a longer path. Two slashes follow one another nowhere else.
    private static let gap = Array("//...//".utf8)

    private let above: InPlaceLock<TreePath?>
    let name: [UInt8]
    private let length: Int
    /// The first names of a long path, which all paths below it share.
    private let beginning: [UInt8]?

    /// The path of an entry of the directory `above`; nil is the root.
    init(_ name: [UInt8], in above: TreePath?) {
        self.name = name
        length = above.map { $0.length + 1 + name.count } ?? name.count
        beginning = length > Self.longest / 2 ? above.map { $0.beginning ?? $0.whole } : nil
        self.above = InPlaceLock(above)
    }

    /// Whether the text has all names.
    var isShown: Bool { length <= Self.longest }

    /// The names with slashes between them; of a long path the first and the last ones.
    var text: [UInt8] {
        guard !isShown, let beginning else { return whole }
        return beginning + Self.gap + names(atMost: Self.longest / 2)
    }

    /// All names with slashes between them.
    var whole: [UInt8] { names(atMost: length) }

    /// The last names, in so many bytes.
    private func names(atMost limit: Int) -> [UInt8] {
        var names: [[UInt8]] = []
        var room = limit
        var next: TreePath? = self
        while let path = next, path.name.count <= room {
            names.append(path.name)
            room -= path.name.count + 1
            next = path.above.withLock { $0 }
        }
        return Array(names.reversed().joined(separator: [UInt8(ascii: "/")]))
    }

    deinit {
        // Not by one call for each level, because a stack has an end.
        var next = above.withLock { $0.take() }
        while next != nil, isKnownUniquelyReferenced(&next) { next = next?.above.withLock { $0.take() } }
    }
}

/// The visible and the backing path of an object.
struct ObjectPaths: Sendable {
    private var visiblePath: TreePath?
    private var backingPath: TreePath?
    /// Whether the object's directory has a newer record. The object is checked, and neither it nor its name is changed.
    var isKept = false
    /// Whether this is a directory with a newer record.
    var keepsEntries = false

    /// The root.
    init() {}

    /// An object of the root that users do not see.
    init(backing name: [UInt8]) { backingPath = TreePath(name, in: nil) }

    /// The path that users see, shortened if it is longer than a path that programs can use.
    var visible: [UInt8] { visiblePath?.text ?? [] }
    /// The path in the backing store, shortened in the same way.
    var backing: [UInt8] { backingPath?.text ?? [] }
    /// The whole path in the backing store.
    var wholeBacking: [UInt8] { backingPath?.whole ?? [] }
    /// Whether `visible` has all names, and so no other object has it.
    var isShown: Bool { visiblePath?.isShown ?? true }

    /// The paths of an entry of this directory.
    func appending(_ name: [UInt8], _ entry: EntryName) -> ObjectPaths {
        var paths = ObjectPaths()
        paths.visiblePath = TreePath(name, in: visiblePath)
        paths.backingPath = TreePath(Array(entry.bytes), in: backingPath)
        paths.isKept = keepsEntries
        return paths
    }
}
