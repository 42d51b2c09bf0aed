// Finds the class keys that the headers of a store name, and the files that need a former one.

package import BackingStore
internal import CLibrary
internal import HostSystem
package import KeyFiles
package import Keybag
internal import ProtectedVolume
internal import SodiumKit
internal import VolumeFormat

/// The class keys that something in a store needs.
package struct NeededKeys: Sendable {
    /// Those that a header names which verifies.
    package var keys: Set<FormerKey> = []
    /// The backing path of a late file, whose records are read with the keys of classes A and B. Nil if there is none.
    package var late: [UInt8]?
    /// Whether a mounted volume has late records in memory.
    package var hasLateRecords = false
    /// Whether a newer version has made a file, so that nothing is known of its key.
    package var hasNewer = false
    /// The backing path of a file for each key.
    package var examples: [FormerKey: [UInt8]] = [:]
    /// The backing path of a file whose header does not verify, so that nothing is known of its key.
    package var damaged: [UInt8]?

    /// Those of `former` that nothing needs.
    package func unneeded(of former: Set<FormerKey>) -> Set<FormerKey> {
        if hasNewer || damaged != nil { return [] }
        let isLate = late != nil || hasLateRecords
        let classes = [ProtectionClass.complete, .completeUnlessOpen].map(\.rawValue)
        return former.filter { !keys.contains($0) && !(isLate && classes.contains($0.number)) }
    }

    /// Reads the header of every file of a store, under whatever name, and makes every directory durable. So what a former key
    /// is not needed for now is not needed after a crash either.
    ///
    /// - Parameters:
    ///   - isMounted: whether the store changes meanwhile. An entry that has gone is passed over then: `KeyRing.quietMoves` says
    ///     whether it may be elsewhere now.
    ///   - file: gets the backing path of each file that a mount shows, and of each copy that a killed rewriting has left beside its
    ///     file, and the key that its header names.
    ///   - goesOn: asked often; false ends it with EINTR.
    /// - Throws: the store's error if anything cannot be read.
    package static func find(
        in directory: BackingDirectory, _ metadata: MetadataKeys, isMounted: Bool = false,
        file: (_ path: [UInt8], FormerKey) -> Void = { _, _ in }, goesOn: () -> Bool = { true }
    ) throws(VolumeError) -> NeededKeys {
        var needed = NeededKeys()
        do throws(Errno) {
            let look = Look(metadata: metadata, isMounted: isMounted)
            try needed.look(through: directory, look, file, goesOn)
        } catch { throw .store(error) }
        return needed
    }

    private struct Look {
        let metadata: MetadataKeys
        let isMounted: Bool
    }

    /// A directory that is not looked into yet.
    private struct Below {
        let entry: DirectoryEntry
        /// Whether files of the mount are in it, and not what a check has moved away.
        let isOrdinary: Bool
    }

    private mutating func look(
        through top: BackingDirectory, _ look: Look, _ found: ([UInt8], FormerKey) -> Void, _ goesOn: () -> Bool
    ) throws(Errno) {
        var way = Descent(from: top)
        var path: [UInt8] = []
        // Of each level: what is not looked into yet, and the length of the path above.
        var levels = [(waiting: try self.look(in: top, path, true, look, found, goesOn), length: 0)]
        while let level = levels.last {
            guard let next = level.waiting.last else {
                levels.removeLast()
                path.removeLast(path.count - level.length)
                way.leave()
                continue
            }
            levels[levels.count - 1].waiting.removeLast()
            do throws(Errno) { try way.enter(next.entry) } catch {
                guard look.isMounted, error == .ENOENT else { throw error }
                continue
            }
            let length = path.count
            path = Self.path(of: next.entry, below: path)
            var waiting: [Below] = []
            do throws(Errno) {
                waiting = try self.look(in: way.directory(), path, next.isOrdinary, look, found, goesOn)
            } catch { guard look.isMounted, error == .ENOENT else { throw error } }
            levels.append((waiting, length))
        }
    }

    private static func path(of entry: DirectoryEntry, below path: [UInt8]) -> [UInt8] {
        path.isEmpty ? Array(entry.name.bytes) : path + [UInt8(ascii: "/")] + Array(entry.name.bytes)
    }

    /// - Parameter isOrdinary: as in `Below`.
    /// - Returns: the directories in it.
    private mutating func look(
        in directory: BackingDirectory, _ path: [UInt8], _ isOrdinary: Bool, _ look: Look,
        _ found: ([UInt8], FormerKey) -> Void, _ goesOn: () -> Bool
    ) throws(Errno) -> [Below] {
        var below: [Below] = []
        try directory.synchronize()
        var files: Set<ObjectID> = []
        var copies: [(entry: DirectoryEntry, header: FileHeader)] = []
        for entry in try directory.entries() {
            guard goesOn() else { throw .EINTR }
            do throws(Errno) {
                guard let seen = try self.look(at: entry, in: directory, path, isOrdinary, look, found, &below) else {
                    continue
                }
                if seen.isFile {
                    files.insert(seen.header.fileID)
                } else {
                    copies.append((entry, seen.header))
                }
            } catch {
                guard look.isMounted, error == .ENOENT else { throw error }
            }
        }
        for copy in copies {
            let key = FormerKey(copy.header)
            let below = Self.path(of: copy.entry, below: path)
            need(key, below)
            if files.contains(copy.header.fileID) { found(below, key) }
        }
        return below
    }

    private mutating func need(_ key: FormerKey, _ path: [UInt8]) {
        if keys.insert(key).inserted { examples[key] = path }
    }

    /// - Returns: the header of a file of the mount, or of what may be a copy of one under a temporary name.
    private mutating func look(
        at entry: DirectoryEntry, in directory: BackingDirectory, _ path: [UInt8], _ isOrdinary: Bool,
        _ look: Look, _ found: ([UInt8], FormerKey) -> Void, _ directories: inout [Below]
    ) throws(Errno) -> (header: FileHeader, isFile: Bool)? {
        let form = ReservedName.kind(of: entry.name.bytes.span)
        if form == .unknownReserved { hasNewer = true }
        let isFile = isOrdinary && Self.isFile(form)
        var kind = entry.kind
        if kind == .unknown { kind = try directory.status(of: entry.name).kind }
        switch kind {
        case .directory: directories.append(Below(entry: entry, isOrdinary: isFile))
        case .regular:
            let below = Self.path(of: entry, below: path)
            if form == .late { late = late ?? below }
            let file = try directory.openFile(entry.name, .readOnly)
            switch try Self.header(of: file, look) {
            case .none: break
            case .newer: hasNewer = true
            case .damaged: if isFile { damaged = damaged ?? below }
            case .names(let header):
                if isOrdinary, form == .temporary { return (header, false) }
                need(FormerKey(header), below)
                if isFile {
                    found(below, FormerKey(header))
                    return (header, true)
                }
            }
        default: break
        }
        return nil
    }

    private static func isFile(_ form: ReservedName.Kind) -> Bool { form == .encoded || form == .long }

    /// Whether an entry is a copy that a killed rewriting of a file has left: a temporary name with the header of a file, beside the
    /// file of the same ID, whose header verifies.
    static func isLeftover(
        _ name: EntryName, in directory: BackingDirectory, _ metadata: MetadataKeys
    ) throws(Errno) -> Bool {
        let look = Look(metadata: metadata, isMounted: true)
        func id(of name: EntryName, _ kind: FileKind) throws(Errno) -> ObjectID? {
            guard kind == .regular, case .names(let header) = try header(of: directory.openFile(name, .readOnly), look)
            else { return nil }
            return header.fileID
        }
        guard ReservedName.kind(of: name.bytes.span) == .temporary,
            let wanted = try id(of: name, directory.status(of: name).kind)
        else { return false }
        for entry in try directory.entries() where isFile(ReservedName.kind(of: entry.name.bytes.span)) {
            // Another one may be moved or removed meanwhile.
            if (try? id(of: entry.name, directory.status(of: entry.name).kind)) == wanted { return true }
        }
        return false
    }

    private enum Header {
        /// An empty file may have no header yet. A file whose first bytes are zeros has no wrapped key.
        case none
        case newer
        case damaged
        case names(FileHeader)
    }

    private static func header(of file: BackingFile, _ look: Look) throws(Errno) -> Header {
        var bytes = [UInt8](repeating: 0, count: FileHeader.length)
        // A mount may be writing it right now.
        for attempt in 0..<(look.isMounted ? 4 : 1) {
            if attempt > 0 { usleep(20_000) }
            var span = bytes.mutableSpan
            let count = try file.read(into: &span, at: 0)
            guard count == FileHeader.length else { return count == 0 ? .none : .damaged }
            if bytes.span.isAllZero { return .none }
            let expected = look.metadata.headerMAC(over: bytes.span.extracting(FileHeader.authenticated))
            guard constantTimeEqual(expected.span, bytes.span.extracting(FileHeader.macRange)) else { continue }
            guard let header = try? FileHeader(parsing: bytes.span) else { return .newer }
            return .names(header)
        }
        return .damaged
    }
}

extension FormerKey {
    /// The class key that a header names.
    fileprivate init(_ header: FileHeader) {
        self.init(number: header.protectionClass.rawValue, generation: header.keyGeneration)
    }
}
