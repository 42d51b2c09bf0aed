// The first pass of an import: copies what the volume does not have yet.

import BackingStore
import CLibrary
package import CommandSupport
import HostSystem
import VolumeFormat

extension ImportWalk {
    /// How often a file is copied that changes meanwhile.
    private static let attempts = 3

    /// Copies everything that is missing, and makes it durable.
    package func copy() throws(CommandFailure) {
        try begin("copying")
        try walk { (both, path) throws(CommandFailure) in
            try attempt(path) { () throws(Errno) in try removeLeftovers(both.from, both.to) }
        } visit: { (place, status) throws(CommandFailure) in
            if status.kind == .directory { return try makeDirectory(place) }
            try attempt(place.path) { () throws(Errno) in try copyObject(place, status) }
            return nil
        } end: { (both, path, status) throws(CommandFailure) in
            try attempt(path) { () throws(Errno) in try finish(both, status) }
        }
        try synchronize()
    }

    private static let mark = Array("\(UnfinishedName.importMark)".utf8)

    /// Removes files of an import that was killed. The lock on the target says that none is running.
    private func removeLeftovers(_ from: BackingDirectory, _ to: BackingDirectory) throws(Errno) {
        for entry in try to.entries() where entry.name.bytes.starts(with: Self.temporary.utf8) {
            let isOfSource = (try? from.status(of: entry.name)) != nil
            if !isOfSource, entry.kind != .directory { try to.unlink(entry.name) }
        }
    }

    private func makeDirectory(_ place: Place) throws(CommandFailure) -> Both? {
        var both: Both?
        try attempt(place.path) { () throws(Errno) in
            do throws(Errno) {
                try place.to.createDirectory(place.name, mode: Self.unfinished)
                report.copied += 1
                let made = try place.to.node(place.name)
                try made.setAttribute(Self.mark, [], mode: .set)
                // The files that come to it later get the class, too.
                try setClass(of: place, made)
            } catch {
                guard error == .EEXIST else { throw error }
                report.present += 1
            }
            // ENOTDIR if the volume has another object of this name.
            let to = try openTarget(place)
            both = Both(from: try place.from.openDirectory(place.name), to: to)
        }
        return both
    }

    /// Gives a copied directory its metadata. Not earlier, because a copy into the directory changes its times, and its mode may
    /// forbid it.
    private func finish(_ both: Both, _ status: Status) throws(Errno) {
        let isMarked = try both.to.attributeNames().contains(Self.mark)
        // A directory that somebody else has made stays as open or closed as it is.
        let present = try both.to.status()
        guard isMarked || Self.isUnfinished(present) || replaces else { return }
        try takeMetadata(of: both.from, to: both.to, status)
        if isMarked {
            // A kill between these steps leaves a mode that says it too.
            let mode = try both.to.status().mode & 0o7777
            try both.to.setMode(Self.unfinished)
            try both.to.removeAttribute(Self.mark)
            try both.to.setMode(mode)
        }
        if syncsEach { try both.to.synchronize() }
    }

    /// The mode of a directory of this command whose copy has not ended. No other program makes directories with it.
    private static let unfinished: UInt32 = 0o1700

    /// A default ACL may have taken bits of the owner away.
    private static func isUnfinished(_ status: Status) -> Bool { status.mode & 0o1077 == unfinished & 0o1077 }

    private func copyObject(_ place: Place, _ status: Status) throws(Errno) {
        let known = status.links > 1 ? links[Identity(status)] : nil
        if let present = try self.present(place) {
            if isDone(place, status, present, known) {
                report.present += 1
                if status.links > 1, known == nil { links[Identity(status)] = place.path }
                return
            }
            guard replaces, present.kind != .directory else {
                if present.kind != .directory { return report.failReplaceably(place.path) }
                return report.fail(
                    place.path, "is a directory in the volume; move it to another name there, or rename the file")
            }
        }
        if let known {
            try link(known, place)
        } else {
            try make(place, status, mode: replaces ? .replace : .noReplace)
            if status.links > 1 { links[Identity(status)] = place.path }
        }
        report.copied += 1
    }

    private func present(_ place: Place) throws(Errno) -> Status? {
        do throws(Errno) { return try place.to.status(of: place.name) } catch {
            if error == .ENOENT { return nil }
            throw error
        }
    }

    /// Whether an earlier run has copied the object: a complete file has the length and the time of the source.
    private func isDone(_ place: Place, _ status: Status, _ present: Status, _ known: [EntryName]?) -> Bool {
        guard present.kind == status.kind else { return false }
        if let known, let first = try? self.status(ofTarget: known), Identity(first) != Identity(present) {
            return false
        }
        switch status.kind {
        case .symlink:
            let (one, other) = (try? place.from.readSymlink(place.name), try? place.to.readSymlink(place.name))
            return one != nil && one == other && present.stored == status.stored
        case .regular: return present.size == status.size && present.stored == status.stored
        default: return present.specialDevice == status.specialDevice && present.stored == status.stored
        }
    }

    /// Makes the object under a temporary name, complete, and gives it its own then.
    func make(_ place: Place, _ status: Status, mode: RenameMode) throws(Errno) {
        let temporary = try freeName()
        do throws(Errno) {
            switch status.kind {
            case .regular: try makeFile(place, temporary)
            case .symlink:
                try place.to.createSymlink(temporary, target: try place.from.readSymlink(place.name))
                try takeMetadata(of: try place.from.node(place.name), to: try place.to.node(temporary), status)
            default:
                try place.to.createSpecial(
                    temporary, mode: status.kind.modeBits | 0o600, device: status.specialDevice)
                try takeMetadata(of: try place.from.node(place.name), to: try place.to.node(temporary), status)
            }
            try place.to.rename(temporary, to: place.to, place.name, mode: mode)
        } catch {
            try? place.to.unlink(temporary)
            throw error
        }
    }

    private func freeName() throws(Errno) -> EntryName {
        let number = UInt64.random(in: 0...UInt64.max)
        guard let name = EntryName(Self.temporary + String(number, radix: 16)) else { throw .EINVAL }
        return name
    }

    private func setClass(of place: Place, _ made: BackingNode) throws(Errno) {
        guard let wanted = rules.protectionClass(of: place.path) else { return }
        try made.setAttribute(
            Array("\(AttributeName.protection)".utf8), Array(wanted.canonicalName.utf8), mode: .set)
    }

    private func makeFile(_ place: Place, _ temporary: EntryName) throws(Errno) {
        let to = try place.to.createFile(temporary, mode: 0o600)
        // Before the first byte, so that none was ever in a weaker class.
        try setClass(of: place, to)
        for attempt in 1...Self.attempts {
            let from = try place.from.openFile(place.name, .readOnly)
            let before = try from.status()
            try copyData(from, to, before.size)
            let after = try from.status()
            guard after.size == before.size, after.modified == before.modified, after.changed == before.changed else {
                if attempt == Self.attempts { throw .EBUSY }
                try to.truncate(to: 0)
                continue
            }
            try takeMetadata(of: from, to: to, before)
            if syncsEach { try to.synchronize(dataOnly: false) }
            return
        }
    }

    private func copyData(_ from: BackingFile, _ to: BackingFile, _ size: UInt64) throws(Errno) {
        var offset: UInt64 = 0
        while offset < size, let range = try Self.data(of: from, from: offset, size) {
            offset = range.lowerBound
            while offset < range.upperBound {
                let length = min(UInt64(Self.pieceSize), range.upperBound - offset)
                let count = try Self.read(from, at: offset, into: &piece, Int(length))
                guard !isInterrupted else { throw .EINTR }
                // It has become shorter, which is noticed afterwards.
                guard count > 0 else { return }
                try Self.write(piece, count, to: to, at: offset)
                offset += UInt64(count)
                advance(bytes: UInt64(count))
            }
        }
        try to.truncate(to: size)
    }

    /// Reads `length` bytes. Returns how many there are.
    static func read(
        _ file: BackingFile, at offset: UInt64, into buffer: inout [UInt8], _ length: Int
    ) throws(Errno) -> Int {
        var whole = buffer.mutableSpan
        var part = whole._mutatingExtracting(first: length)
        return try file.read(into: &part, at: offset)
    }

    private static func write(
        _ buffer: [UInt8], _ length: Int, to file: BackingFile, at offset: UInt64
    ) throws(Errno) {
        try file.write(buffer.span.extracting(first: length), at: offset)
    }

    /// The next range with data; nil if only a hole follows. A store without SEEK_DATA has data everywhere.
    static func data(of file: BackingFile, from offset: UInt64, _ size: UInt64) throws(Errno) -> Range<UInt64>? {
        do throws(Errno) {
            let start = try file.nextData(from: offset)
            guard start < size else { return nil }
            return start..<min(max(try file.nextHole(from: start), start + 1), size)
        } catch {
            switch error {
            case .ENXIO: return nil
            case .EINVAL, .EOPNOTSUPP, .ENOSYS: return offset..<size
            default: throw error
            }
        }
    }

    private func link(_ known: [EntryName], _ place: Place) throws(Errno) {
        guard let name = known.last else { throw .ENOENT }
        let directory = try directory(ofTarget: known)
        if replaces, try present(place) != nil { try place.to.unlink(place.name) }
        try directory.link(name, to: place.to, place.name)
    }

    /// The directory of the volume that has this object.
    func directory(ofTarget path: [EntryName]) throws(Errno) -> BackingDirectory {
        var directory: BackingDirectory = target
        for name in path.dropLast() { directory = try directory.openDirectory(name) }
        return directory
    }

    private func status(ofTarget path: [EntryName]) throws(Errno) -> Status {
        guard let name = path.last else { return try target.status() }
        return try directory(ofTarget: path).status(of: name)
    }

    /// Owner, attributes with ACLs, mode, and times, in this order: each changes those before it, and nothing is open to more
    /// users than in the source at any time.
    func takeMetadata(of from: BackingNode, to: BackingNode, _ status: Status) throws(Errno) {
        var now = try to.status()
        if now.owner != status.owner || now.group != status.group {
            do throws(Errno) { try to.setOwner(status.owner, group: status.group) } catch {
                guard error == .EPERM, !Credentials.isRoot else { throw error }
                // The group alone may be one of this user's.
                if now.group != status.group { try? to.setOwner(nil, group: status.group) }
                report.lose("owners and groups, which need root")
            }
            now = try to.status()
        }
        let wanted = try attributes(of: from)
        // A new object inherits the default ACL of its directory.
        for name in try attributes(of: to).keys where Self.isACL(name) && wanted[name] == nil {
            try to.removeAttribute(name)
        }
        for (name, value) in wanted {
            do throws(Errno) { try to.setAttribute(name, value, mode: .set) } catch {
                guard [Errno.EPERM, .EOPNOTSUPP, .EACCES].contains(error) else { throw error }
                refused.insert(name)
                report.lose("the attribute \(HostPath(bytes: name)), which the volume or this user cannot set")
            }
        }
        if status.kind != .symlink { try to.setMode(wantedMode(status, of: now, wanted)) }
        try to.setOwnTimes(accessed: status.accessed, modified: status.stored)
    }

    /// The mode that the copy gets. What the source allows its group is not allowed to another one, and the bits of a group that
    /// are the mask of an ACL are not allowed without it. A program does not run as another user than in the source.
    ///
    /// - Parameter now: the copy with its owner.
    func wantedMode(_ status: Status, of now: Status, _ attributes: [[UInt8]: [UInt8]]) -> UInt32 {
        var mode = status.mode & 0o7777
        let hasLostACL = attributes.keys.contains { Self.isACL($0) && refused.contains($0) }
        if now.group != status.group || hasLostACL { mode &= ~0o2070 }
        // On a directory, set-group-ID concerns its group only.
        if now.owner != status.owner { mode &= status.kind == .directory ? ~0o4000 : ~0o6000 }
        return mode
    }
}
