// Moves items to the desktop's trash, within their file system, so that their classes stay.

import CLibrary
import HostSystem
import PlainFoundation

extension Foundation.FileManager {
    /// Moves an item to the trash of the desktop (the Trash specification of freedesktop.org), from where file managers can put
    /// it back. That is the user's trash if it is on the file system of the item, and else the one at the top of that file
    /// system. Nothing is copied, and the item keeps its class.
    ///
    /// - Parameters:
    ///   - url: the item.
    ///   - resultingItemURL: gets its place in the trash.
    /// - Throws: `CocoaError` 4 if there is no such item, and 513 if this user may not move it, or if new files of the volume's
    ///   default class cannot be made now.
    public func trashItem(at url: URL, resultingItemURL: UnsafeMutablePointer<NSURL?>?) throws {
        let place: HostPath
        do throws(SystemError) { place = try Trash.take(HostPath(url.path)) } catch {
            throw CocoaError.of(error.code, .replace, url.path)
        }
        unsafe resultingItemURL?.pointee = NSURL(fileURLWithPath: place.text)
    }
}

/// The directory of a trash: `files` has the items, and `info` says where each was and when it was deleted.
private struct Trash {
    /// How many items of one name a trash can have.
    private static let mostOfOneName = 10_000

    let place: HostPath
    /// The directory to which the paths in `info` are relative. Nil if they are absolute.
    let top: HostPath?

    /// Moves an item to its trash.
    static func take(_ path: HostPath) throws(SystemError) -> HostPath {
        let item = try path.resolvedObject()
        _ = try FileStatus.read(item)
        return try Trash(for: item).take(item)
    }

    private init(for item: HostPath) throws(SystemError) {
        let device = try FileStatus.read(item.parent).st_dev
        let own = SystemPaths.programData.appending("Trash")
        var known = own
        while (try? FileStatus.read(known)) == nil, known.parent != known { known = known.parent }
        if (try? FileStatus.read(known))?.st_dev == device {
            (place, self.top) = (own, nil)
            try makeDirectories(own)
        } else {
            var top = item.parent
            while top.parent != top, (try? FileStatus.read(top.parent))?.st_dev == device { top = top.parent }
            place = Self.shared(in: top) ?? top.appending(".Trash-\(geteuid())")
            self.top = top
        }
        for directory in [place, files, info] { try Self.make(directory) }
    }

    /// This user's directory in the shared trash of a file system, if nobody else can replace it there. Another user may have
    /// made an entry of its name.
    private static func shared(in top: HostPath) -> HostPath? {
        let shared = top.appending(".Trash")
        // The sticky bit keeps other users from what is in a directory, but not the directory's owner.
        guard let status = try? FileStatus.read(shared), status.st_mode & S_IFMT == S_IFDIR,
            status.st_mode & S_ISVTX != 0, [0, geteuid()].contains(status.st_uid)
        else { return nil }
        let own = shared.appending("\(geteuid())")
        return (try? make(own)) == nil ? nil : own
    }

    private var files: HostPath { place.appending("files") }
    private var info: HostPath { place.appending("info") }

    /// Makes a directory of this user, or takes one that is there.
    private static func make(_ directory: HostPath) throws(SystemError) {
        do throws(SystemError) { return try FileChange.makeDirectory(directory) } catch {
            guard error.code == EEXIST else { throw error }
        }
        let status = try FileStatus.read(directory)
        guard status.st_mode & S_IFMT == S_IFDIR, status.st_uid == geteuid() else {
            throw SystemError(code: EACCES, call: "mkdir", subject: directory.description)
        }
    }

    /// Takes a name that is free by its file in `info`, and moves the item there.
    private func take(_ item: HostPath) throws(SystemError) -> HostPath {
        let name = item.lastComponent
        for number in 1...Self.mostOfOneName {
            let free = number == 1 ? name.bytes : name.bytes + Array(".\(number)".utf8)
            let target = files.appending(bytes: free)
            let note = info.appending(bytes: free + Array(".trashinfo".utf8))
            do throws(SystemError) { try write(item, to: note) } catch {
                if error.code == EEXIST { continue }
                throw error
            }
            do throws(SystemError) { try FileChange.rename(item, to: target, replacing: false) } catch {
                try? FileChange.removeFile(note)
                if error.code == EEXIST { continue }
                throw error
            }
            return target
        }
        throw SystemError(code: EEXIST, call: "rename", subject: item.description)
    }

    private func write(_ item: HostPath, to note: HostPath) throws(SystemError) {
        let below = item.bytes.dropFirst(top?.bytes.count ?? 0)
        let shown = top == nil ? item : HostPath(bytes: below.drop { $0 == UInt8(ascii: "/") })
        let time = WallClock.local(WallClock.seconds).split(separator: " ").joined(separator: "T")
        let text = "[Trash Info]\nPath=\(String(decoding: shown.inURI, as: UTF8.self))\nDeletionDate=\(time)\n"
        let file = try Descriptor(opening: note, O_WRONLY | O_CREAT | O_EXCL, mode: 0o600)
        do throws(SystemError) { try file.write(Array(text.utf8).span) } catch {
            try? FileChange.removeFile(note)
            throw error
        }
    }
}
