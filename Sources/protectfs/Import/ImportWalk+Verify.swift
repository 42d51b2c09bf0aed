// The second pass of an import: compares every byte and attribute.

import BackingStore
import Glibc
import HostSystem
import VolumeFormat

extension ImportWalk {
    /// Compares everything with the source. What is incomplete although it looks complete was cut off by a crash, and is copied again.
    ///
    /// - Parameter mends: whether to do that.
    func verify(mends: Bool) throws(CommandFailure) {
        self.mends = mends
        try begin("comparing")
        try verifyContents(source, target, [])
    }

    private func verifyContents(
        _ from: BackingDirectory, _ to: BackingDirectory, _ path: [EntryName]
    ) throws(CommandFailure) {
        try forEach(in: from, to, path) { (place, status) throws(CommandFailure) in
            var below: (from: BackingDirectory, to: BackingDirectory)?
            try attempt(place.path) { () throws(Errno) in
                let present: Status
                do throws(Errno) { present = try to.status(of: place.name) } catch {
                    guard error == .ENOENT else { throw error }
                    // The first pass has said why.
                    return report.differ(place.path, "is missing in the volume")
                }
                guard present.kind == status.kind else {
                    return report.differ(place.path, "is of another kind in the volume")
                }
                if status.kind == .directory {
                    let both = (from: try from.openDirectory(place.name), to: try to.openDirectory(place.name))
                    below = both
                    return try compareMetadata(both.from, both.to, status, present, place.path)
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
            if let below { try verifyContents(below.from, below.to, place.path) }
        }
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
        if let offset = try firstDifference(from, to, status.size) {
            // A power cut may take contents of a file that looks complete. A file that someone has written has another time.
            guard mends, !isSecond, present.modified == status.modified, status.links == 1 else {
                return report.differ(place.path, "differs at byte \(offset)")
            }
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

    /// The offset of the first byte that differs. Where both have a hole nothing is read.
    private func firstDifference(
        _ from: BackingFile, _ to: BackingFile, _ size: UInt64
    ) throws(Errno) -> UInt64? {
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
            if let short = counts.min(), short < length { return start + UInt64(short) }
            if piece[..<length] != otherPiece[..<length] {
                return start + UInt64(zip(piece, otherPiece).prefix { $0 == $1 }.count)
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
        _ from: BackingNode, _ to: BackingNode, _ status: Status, _ present: Status, _ path: [EntryName]
    ) throws(Errno) {
        var wrong: [String] = []
        // Only root may set this bit for a group that is not one of its own.
        let kept: UInt32 = geteuid() != 0 && status.group != present.group ? ~0o2000 : ~0
        if status.kind != .symlink, status.mode & kept != present.mode & kept { wrong.append("mode") }
        if geteuid() == 0, status.owner != present.owner || status.group != present.group { wrong.append("owner") }
        if status.modified != present.modified { wrong.append("time of change") }
        let (one, other) = (try attributes(of: from), try attributes(of: to))
        // The volume may have more, such as the label of a security module.
        for (name, value) in one where other[name] != value { wrong.append("attribute \(HostPath(bytes: name))") }
        for name in other.keys where Self.isACL(name) && one[name] == nil { wrong.append("an ACL that it adds") }
        guard wrong.isEmpty else {
            return report.differ(path, "differs in \(wrong.sorted().joined(separator: ", "))")
        }
        report.verified += 1
    }
}
