// A walk through a tree by descriptors, because paths of system calls end at 4096 bytes, and trees do not.

import BackingStore
import CLibrary
import HostSystem

/// An object that a walk has found.
struct WalkedObject {
    /// Its path for a person, which may be too long for a system call.
    let path: HostPath
    /// Its path for system calls, as long as the walk is in its directory.
    let place: HostPath

    /// An object that is named on the command line.
    init(_ path: HostPath) { (self.path, place) = (path, path) }

    fileprivate init(_ name: HostPath, in directory: HostDirectory, _ path: HostPath) {
        (self.path, place) = (path.appending(bytes: name.bytes), HostPath(directory.place).appending(bytes: name.bytes))
    }
}

/// Walks of any depth, with few descriptors.
struct DeepWalk {
    private var descent: Descent

    private init(_ top: HostPath) throws(SystemError) {
        let opened = try Descriptor(opening: top, O_RDONLY | O_DIRECTORY)
        descent = Descent(
            from: try Self.call { () throws(Errno) in
                try HostDirectory.open(path: "/proc/self/fd/\(opened.number)")
            })
    }

    /// Walks through the directory `top`, in the order of the names' bytes.
    ///
    /// - Parameters:
    ///   - first: what `visit` gets for the objects in `top`.
    ///   - fail: gets the directories that cannot be listed.
    ///   - visit: looks at an object; gives what it is to get for those in it. Nil if it is not entered.
    static func run<Level>(
        _ top: HostPath, _ first: Level, fail: (SystemError, HostPath) -> Void,
        visit: (WalkedObject, Level) -> Level?
    ) {
        var levels: [(path: HostPath, names: [HostPath], level: Level)] = []
        var walk: DeepWalk
        do throws(SystemError) {
            walk = try DeepWalk(top)
            levels.append((top, try walk.names(), first))
        } catch {
            return fail(error, top)
        }
        while var now = levels.popLast() {
            guard let name = now.names.popLast() else {
                walk.descent.leave()
                continue
            }
            levels.append(now)
            do throws(SystemError) {
                let object = WalkedObject(name, in: try walk.directory(), now.path)
                guard let below = visit(object, now.level) else { continue }
                try walk.enter(name, object)
                levels.append((object.path, [], below))
                levels[levels.count - 1].names = try walk.names()
            } catch {
                fail(error, now.path.appending(bytes: name.bytes))
            }
        }
    }

    private mutating func enter(_ name: HostPath, _ object: WalkedObject) throws(SystemError) {
        // Opening must not change the mode for a moment, as it may in a store.
        try FileStatus.requireAccess(object.place, R_OK | X_OK)
        let directory = try directory()
        try Self.call { () throws(Errno) in
            guard let entry = EntryName(name.bytes) else { throw .ENOENT }
            try descent.enter(entry, try directory.openDirectory(entry))
        }
    }

    /// The deepest directory.
    private mutating func directory() throws(SystemError) -> HostDirectory {
        try Self.call { () throws(Errno) in
            guard let directory = try descent.directory() as? HostDirectory else { throw .ENOTDIR }
            return directory
        }
    }

    /// The names in it, the last one first.
    private mutating func names() throws(SystemError) -> [HostPath] {
        try FileStatus.names(in: HostPath(try directory().place)).reversed()
    }

    private static func call<Result>(_ body: () throws(Errno) -> Result) throws(SystemError) -> Result {
        do throws(Errno) { return try body() } catch { throw SystemError(code: error.rawValue, call: "open") }
    }
}
