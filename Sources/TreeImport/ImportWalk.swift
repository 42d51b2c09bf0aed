// The walk of an import through the source and the volume: what both passes share.

package import BackingStore
import CLibrary
package import CommandSupport
import HostSystem
import VolumeFormat

/// One import. The first pass copies, the second compares. For one thread.
///
/// What a killed import leaves is told apart by names: a file gets its name when it is complete, with the times of the source.
/// Until then it has a temporary name, which the next import removes. Contents that a power cut has lost all the same are found by
/// the second pass.
package final class ImportWalk {
    /// An object of the source, and its place in the volume.
    struct Place {
        let from: BackingDirectory
        let to: BackingDirectory
        let name: EntryName
        /// From the root of the source, with the name.
        let path: [EntryName]
    }

    /// A directory of the source, and its copy.
    struct Both {
        let from: BackingDirectory
        let to: BackingDirectory
    }

    /// An object, whatever its name.
    package struct Identity: Hashable {
        let device: UInt64
        let inode: UInt64

        init(_ status: Status) { (device, inode) = (status.device, status.inode) }
    }

    /// The beginning of temporary names.
    static let temporary = "\(UnfinishedName.importPrefix)"
    /// Bytes that are read and written at a time.
    static let pieceSize = 1 << 20

    let source: HostDirectory
    let target: HostDirectory
    let rules: ImportRules
    let replaces: Bool
    let report: ImportReport
    let sourceDevice: UInt64
    /// The volume's directory. A mount does not pass syncfs(2) on, so it is synced itself.
    private let store: HostDirectory
    /// Whether the store needs each file and directory to be synced itself.
    let syncsEach: Bool
    private let device: UInt64
    private let interruption: Interruption
    /// Where the first name of an object with several is in the volume.
    var links: [Identity: [EntryName]] = [:]
    /// The object in the volume of an object with several names, as the comparison has seen it.
    var linked: [Identity: Identity] = [:]
    var piece = [UInt8](repeating: 0, count: pieceSize)
    var otherPiece = [UInt8](repeating: 0, count: pieceSize)
    /// Whether the comparison copies again what a crash has cut off.
    var mends = false
    /// The directories in which the comparison has made a file anew, as they were before.
    var remade: [[EntryName]: Status] = [:]
    /// When the objects of the source had changed last that were compared and equal. Nil unless they are to be removed.
    package var compared: [Identity: Timestamp]?
    /// Attributes that the volume does not take.
    var refused: Set<[UInt8]> = []
    private var total: (objects: UInt64, bytes: UInt64) = (0, 0)
    private var done: (objects: UInt64, bytes: UInt64) = (0, 0)
    private var estimate = Estimate()
    private var doing = ""

    /// A walk from `source` to `target`, which is a directory of the mount whose store is `store`.
    package init(
        from source: HostDirectory, to target: HostDirectory, store: HostDirectory, rules: ImportRules, replaces: Bool,
        report: ImportReport, interruption: Interruption
    ) throws(CommandFailure) {
        self.source = source
        self.target = target
        self.rules = rules
        self.replaces = replaces
        self.report = report
        self.store = store
        syncsEach = !store.syncsWhole
        self.interruption = interruption
        ProcessHardening.raiseOpenFiles()
        do throws(Errno) {
            let status = try source.status()
            guard Self.isReadable(status) else { throw .EACCES }
            sourceDevice = status.device
        } catch {
            throw .init(.failure, "the source cannot be read: \(SystemError.reason(of: error.rawValue))")
        }
        do throws(Errno) { device = try target.status().device } catch {
            throw .init(.failure, "the volume cannot be used: \(SystemError.reason(of: error.rawValue))")
        }
        do throws(Errno) { try target.lock(exclusive: true) } catch {
            throw error == .EAGAIN
                ? .init(.busy, "another import into this directory is running")
                : .init(.failure, "the volume cannot be used: \(SystemError.reason(of: error.rawValue))")
        }
    }

    // MARK: Passes

    /// Begins a pass of which the progress is shown as `doing`.
    func begin(_ doing: String) throws(CommandFailure) {
        if report.progress.isShown, total.objects == 0 {
            report.progress.show("looking at the source")
            try count()
        }
        self.doing = doing
        done = (0, 0)
        estimate = Estimate()
    }

    private func count() throws(CommandFailure) {
        var way = Descent(from: source)
        // The directories of each level that were not counted.
        var waiting = [try count(in: source)]
        while var level = waiting.popLast() {
            guard let next = level.popLast() else {
                way.leave()
                continue
            }
            waiting.append(level)
            guard (try? way.enter(next)) != nil, let directory = try? way.directory() else { continue }
            waiting.append(try count(in: directory))
        }
    }

    /// - Returns: the directories in it.
    private func count(in directory: BackingDirectory) throws(CommandFailure) -> [DirectoryEntry] {
        var below: [DirectoryEntry] = []
        for entry in (try? directory.entries()) ?? [] {
            try checkInterruption()
            guard let status = try? directory.status(of: entry.name), status.device == sourceDevice else { continue }
            total.objects += 1
            if status.kind == .regular { total.bytes += status.size }
            if status.kind == .directory, Self.isReadable(status) {
                below.append(DirectoryEntry(name: entry.name, inode: status.inode, kind: .directory))
            }
        }
        return below
    }

    /// One more object is done.
    func advance() {
        done.objects += 1
        showProgress()
    }

    /// More bytes are done.
    func advance(bytes: UInt64) {
        done.bytes += bytes
        showProgress()
    }

    private func showProgress() {
        // An object counts as much as this many bytes.
        let weight: UInt64 = 1 << 16
        report.progress.show(
            "\(doing): \(done.objects) of \(total.objects) objects, \(estimate.text(done.bytes + done.objects * weight, of: total.bytes + total.objects * weight))"
        )
    }

    /// Makes everything durable that was copied. Not the mount alone: the kernel does not pass syncfs(2) on to a daemon.
    func synchronize() throws(CommandFailure) {
        try attempt([]) { () throws(Errno) in
            try target.synchronizeStore()
            try store.synchronizeStore()
        }
    }

    /// Opens a directory of the volume. EXDEV if something else is mounted there.
    func openTarget(_ place: Place) throws(Errno) -> BackingDirectory {
        let directory = try place.to.openDirectory(place.name)
        guard try directory.status().device == device else { throw .EXDEV }
        return directory
    }

    /// Whether a signal has asked to end. EINTR says so.
    var isInterrupted: Bool { interruption.isAsked }

    private static let interrupted = CommandFailure(.failure, "interrupted; the same command continues")

    private func checkInterruption() throws(CommandFailure) {
        if isInterrupted { throw Self.interrupted }
    }

    // MARK: Objects

    /// The entries of a directory of the source. What is missing in them is reported.
    private func entries(of from: BackingDirectory, _ path: [EntryName]) -> [DirectoryEntry] {
        do throws(Errno) {
            if try (from as? HostDirectory)?.hasUnusableNames() ?? false {
                report.fail(
                    path, "has names of more than 255 bytes, which Linux programs cannot use; rename these files")
            }
            return try from.entries()
        } catch {
            report.fail(path, Self.reason(error))
            return []
        }
    }

    /// Walks through the source and the volume. Not by one call for each level, because a stack has an end, and so have descriptors.
    ///
    /// - Parameters:
    ///   - begin: is called with each directory before its objects.
    ///   - visit: is called with every object that is to be copied. What cannot be copied is reported. Returns the directories to go
    ///     into, if the object is one.
    ///   - end: is called with each such directory after its objects, and with its status from before.
    func walk(
        begin: (Both, _ path: [EntryName]) throws(CommandFailure) -> Void = { _, _ in },
        visit: (Place, Status) throws(CommandFailure) -> Both?,
        end: (Both, _ path: [EntryName], Status) throws(CommandFailure) -> Void
    ) throws(CommandFailure) {
        var (from, to) = (Descent(from: source), Descent(from: target))
        var path: [EntryName] = []
        // Of each level: the objects that were not visited, and the status of the directory, if it is not the top.
        var levels: [(waiting: [DirectoryEntry], status: Status?)] = []
        try begin(Both(from: source, to: target), path)
        levels.append((entries(of: source, path).reversed(), nil))
        while var level = levels.popLast() {
            var both: Both?
            // It may have been moved while it was closed.
            try attempt(path) { () throws(Errno) in both = Both(from: try from.directory(), to: try to.directory()) }
            guard let both, let entry = level.waiting.popLast() else {
                guard let status = level.status else { continue }
                if let both { try end(both, path, status) }
                advance()
                path.removeLast()
                from.leave()
                to.leave()
                continue
            }
            levels.append(level)
            try checkInterruption()
            let place = Place(from: both.from, to: both.to, name: entry.name, path: path + [entry.name])
            guard let status = readableStatus(of: place) else { continue }
            var isEntered = false
            if let below = try visit(place, status) {
                try attempt(place.path) { () throws(Errno) in
                    try to.enter(place.name, below.to)
                    do throws(Errno) { try from.enter(place.name, below.from) } catch {
                        to.leave()
                        throw error
                    }
                    isEntered = true
                }
                if isEntered {
                    path.append(place.name)
                    try begin(below, path)
                    levels.append((entries(of: below.from, path).reversed(), status))
                }
            }
            if !isEntered { advance() }
        }
    }

    /// Nil if the object cannot be copied, which is reported.
    private func readableStatus(of place: Place) -> Status? {
        let status: Status
        do throws(Errno) { status = try place.from.status(of: place.name) } catch {
            // It may have been removed while the source was listed. Some network file systems list what nobody can open.
            let isListed = error != .ENOENT || (try? place.from.entries())?.contains { $0.name == place.name } ?? true
            if isListed { report.fail(place.path, Self.reason(error)) }
            return nil
        }
        if status.device != sourceDevice {
            report.skip(place.path, "is on another file system; import that one by itself")
        } else if !Self.isReadable(status) {
            let needed = status.kind == .directory ? "u+rx" : "u+r"
            report.fail(place.path, "its own mode forbids reading it; chmod \(needed) allows it")
        } else {
            return status
        }
        return nil
    }

    /// Runs `body` on one object. Its error is reported, unless it concerns all objects.
    func attempt(_ path: [EntryName], _ body: () throws(Errno) -> Void) throws(CommandFailure) {
        do throws(Errno) { try body() } catch {
            switch error {
            case .ENOSPC, .EDQUOT:
                throw .init(.failure, "no space is left for the volume; make some, and give the same command again")
            case _ where [ENOTCONN, ECONNABORTED].contains(error.rawValue):
                throw .init(.notMounted, "the mount has ended; give the same command again")
            case .EINTR: throw Self.interrupted
            case .EROFS: throw .init(.failure, "the volume is mounted read-only")
            case .EACCES where !isUnlocked:
                throw .init(.locked, "the volume was locked; unlock it, and give the same command again")
            default: report.fail(path, Self.reason(error))
            }
        }
    }

    private var isUnlocked: Bool {
        // The attribute is on the mount's root only.
        guard let state = try? target.attribute(Array("\(AttributeName.state)".utf8)) else { return true }
        return state == Array("unlocked".utf8)
    }

    /// Whether the object can be opened without a change of its mode, which is never made in the source.
    static func isReadable(_ status: Status) -> Bool {
        guard !Credentials.isRoot, status.owner == geteuid() else { return true }
        switch status.kind {
        case .regular: return status.mode & 0o400 != 0
        case .directory: return status.mode & 0o500 == 0o500
        default: return true
        }
    }

    static func reason(_ error: Errno) -> String { SystemError.reason(of: error.rawValue) }

    /// Whether an attribute belongs to a mount of protectfs, not to the object.
    private static func isOwn(_ name: [UInt8]) -> Bool {
        ["\(AttributeName.protection)", "\(UnfinishedName.importMark)"].contains { name.elementsEqual($0.utf8) }
            || name.starts(with: "\(AttributeName.ownPrefix)".utf8)
    }

    /// Whether an attribute holds an ACL, which decides who may use the object.
    static func isACL(_ name: [UInt8]) -> Bool {
        ["\(AttributeName.accessACL)", "\(AttributeName.defaultACL)"].contains { name.elementsEqual($0.utf8) }
    }

    /// The attributes of an object that are to be copied.
    func attributes(of node: BackingNode) throws(Errno) -> [[UInt8]: [UInt8]] {
        var found: [[UInt8]: [UInt8]] = [:]
        let names: [[UInt8]]
        do throws(Errno) { names = try node.attributeNames() } catch {
            if error == .EOPNOTSUPP || error == .ENOSYS { return [:] }
            throw error
        }
        for name in names where !Self.isOwn(name) {
            do throws(Errno) { found[name] = try node.attribute(name) } catch {
                switch error {
                // It was removed meanwhile.
                case .ENODATA: continue
                case .EPERM, .EACCES:
                    report.lose("the attribute \(HostPath(bytes: name)), which this user cannot read")
                default: throw error
                }
            }
        }
        return found
    }
}
