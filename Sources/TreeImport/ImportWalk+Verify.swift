// The second pass of an import: compares every byte and attribute.

import BackingStore
import CLibrary
package import CommandSupport
import HostSystem
import VolumeFormat

extension ImportWalk {
    /// Compares everything with the source. What is incomplete although it looks complete was cut off by a crash, and is copied again.
    ///
    /// - Parameter mends: whether to do that.
    package func verify(mends: Bool) throws(CommandFailure) {
        self.mends = mends
        try begin("comparing")
        try walk(visit: compare) { (both, path, status) throws(CommandFailure) in
            // Not earlier, because a file that is made anew changes the times of its directory.
            try attempt(path) { () throws(Errno) in
                if let before = remade.removeValue(forKey: path), before.stored == status.stored {
                    try both.to.setOwnTimes(accessed: status.accessed, modified: status.stored)
                    if syncsEach { try both.to.synchronize() }
                }
                try compareMetadata(both.from, both.to, status, try both.to.status(), path)
            }
        }
        if mends { try synchronize() }
    }

    /// Compares an object, or opens a directory to compare what is in it.
    private func compare(_ place: Place, _ status: Status) throws(CommandFailure) -> Both? {
        var below: Both?
        try attempt(place.path) { () throws(Errno) in
            let present: Status
            do throws(Errno) { present = try place.to.status(of: place.name) } catch {
                guard error == .ENOENT else { throw error }
                // The first pass has said why.
                return report.differ(place.path, "is missing in the volume")
            }
            guard present.kind == status.kind else {
                return report.differ(place.path, "is of another kind in the volume")
            }
            if status.kind == .directory {
                below = Both(from: try place.from.openDirectory(place.name), to: try openTarget(place))
                return
            }
            if status.links > 1, !isSameLink(status, present) {
                return report.differ(place.path, "is not a hard link to the same file as in the source")
            }
            if status.kind == .regular {
                try compareFile(place, status, present)
            } else {
                try compareOther(place, status, present)
            }
        }
        return below
    }

    private func isSameLink(_ status: Status, _ present: Status) -> Bool {
        guard let first = linked[Identity(status)] else {
            linked[Identity(status)] = Identity(present)
            return true
        }
        return first == Identity(present)
    }

    private func compareFile(
        _ place: Place, _ status: Status, _ present: Status, isSecond: Bool = false
    ) throws(Errno) {
        let from = try place.from.openFile(place.name, .readOnly)
        let to = try place.to.openFile(place.name, .readOnly)
        // The comparison must see what is stored, and not what the kernel remembers of the copy.
        to.forgetCached()
        guard status.size == present.size else {
            return report.differ(
                place.path, "has \(present.size) bytes in the volume, and \(status.size) in the source")
        }
        if let difference = try firstDifference(from, to, status.size) {
            // A power cut may take contents of a file that looks complete, and leaves zeros. Other bytes were written by somebody.
            let isLost = difference.isZero && present.stored == status.stored
            guard mends, isLost || replaces, !isSecond, status.links == 1 else {
                return report.differ(place.path, "differs at byte \(difference.offset)")
            }
            let above = Array(place.path.dropLast())
            if remade[above] == nil { remade[above] = try place.to.status() }
            try make(place, status, mode: .replace)
            report.again += 1
            return try compareFile(place, status, try place.to.status(of: place.name), isSecond: true)
        }
        if let wanted = rules.protectionClass(of: place.path) {
            let found = try to.attribute(Array("\(AttributeName.protection)".utf8))
            if found != Array(wanted.canonicalName.utf8) {
                report.differ(
                    place.path,
                    "has the class \(HostPath(bytes: found)), and not \(wanted.canonicalName); protectfs class set changes it"
                )
            }
        }
        report.bytes += status.size
        try compareMetadata(from, to, status, present, place.path)
    }

    /// The first byte that differs, and whether the volume has only zeros from there on in what was read. Where both have a hole
    /// nothing is read.
    private func firstDifference(
        _ from: BackingFile, _ to: BackingFile, _ size: UInt64
    ) throws(Errno) -> (offset: UInt64, isZero: Bool)? {
        var offset: UInt64 = 0
        while offset < size {
            let starts = [
                try Self.data(of: from, from: offset, size)?.lowerBound,
                try Self.data(of: to, from: offset, size)?.lowerBound,
            ]
            guard let start = starts.compactMap({ $0 }).min() else { return nil }
            let length = Int(min(UInt64(Self.pieceSize), size - start))
            let counts = [
                try Self.read(from, at: start, into: &piece, length),
                try Self.read(to, at: start, into: &otherPiece, length),
            ]
            if let short = counts.min(), short < length { return (start + UInt64(short), false) }
            if piece[..<length] != otherPiece[..<length] {
                let first = zip(piece, otherPiece).prefix { $0 == $1 }.count
                return (start + UInt64(first), otherPiece[first..<length].allSatisfy { $0 == 0 })
            }
            guard !isInterrupted else { throw .EINTR }
            offset = start + UInt64(length)
            advance(bytes: UInt64(length))
        }
        return nil
    }

    private func compareOther(_ place: Place, _ status: Status, _ present: Status) throws(Errno) {
        if status.kind == .symlink {
            guard try place.from.readSymlink(place.name) == place.to.readSymlink(place.name) else {
                return report.differ(place.path, "has another target in the volume")
            }
        } else if status.specialDevice != present.specialDevice {
            return report.differ(place.path, "is another device in the volume")
        }
        try compareMetadata(
            try place.from.node(place.name), try place.to.node(place.name), status, present, place.path)
    }

    private func compareMetadata(
        _ from: BackingNode, _ to: BackingNode, _ status: Status, _ present: Status, _ path: [EntryName],
        isSecond: Bool = false
    ) throws(Errno) {
        var wrong: [String] = []
        let (one, other) = (try attributes(of: from), try attributes(of: to))
        if status.kind != .symlink, wantedMode(status, of: present, one) != present.mode & 0o7777 {
            wrong.append("mode")
        }
        if Credentials.isRoot, status.owner != present.owner || status.group != present.group { wrong.append("owner") }
        if status.stored != present.stored { wrong.append("time of change") }
        // The volume may have more, such as the label of a security module.
        for (name, value) in one where other[name] != value && !refused.contains(name) {
            wrong.append("attribute \(HostPath(bytes: name))")
        }
        for name in other.keys where Self.isACL(name) && one[name] == nil { wrong.append("an ACL that it adds") }
        guard !wrong.isEmpty else {
            report.verified += 1
            compared?[Identity(status)] = status.changed
            return
        }
        guard mends, replaces, !isSecond else {
            return report.differ(path, "differs in \(wrong.sorted().joined(separator: ", "))")
        }
        try takeMetadata(of: from, to: to, status)
        try compareMetadata(from, to, status, try to.status(), path, isSecond: true)
    }
}
