// Finds the class keys that the headers of a store name, and the files that need a former one.

package import BackingStore
internal import CLibrary
internal import HostSystem
package import Keybag
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
    ///   - leftovers: former keys. The copies that a killed rewriting has left, which nothing needs, are removed if they need one of
    ///     them. Only for a store that does not change meanwhile.
    ///   - file: gets the backing path of each file that a mount shows, and of each such copy, and the key that its header names.
    ///   - goesOn: asked often; false ends it with EINTR.
    /// - Throws: the store's error if anything cannot be read.
    package static func find(
        in directory: BackingDirectory, _ metadata: MetadataKeys, isMounted: Bool = false,
        removing leftovers: Set<FormerKey> = [], file: (_ path: [UInt8], FormerKey) -> Void = { _, _ in },
        goesOn: () -> Bool = { true }
    ) throws(VolumeError) -> NeededKeys {
        var needed = NeededKeys()
        do throws(Errno) {
            let look = Look(metadata: metadata, isMounted: isMounted, leftovers: leftovers)
            try needed.look(in: directory, [], true, look, file, goesOn)
        } catch { throw .store(error) }
        return needed
    }

    private struct Look {
        let metadata: MetadataKeys
        let isMounted: Bool
        let leftovers: Set<FormerKey>
    }

    /// - Parameter isOrdinary: whether files of the mount are in the directory, and not what a check has moved away.
    private mutating func look(
        in directory: BackingDirectory, _ path: [UInt8], _ isOrdinary: Bool, _ look: Look,
        _ found: ([UInt8], FormerKey) -> Void, _ goesOn: () -> Bool
    ) throws(Errno) {
        try directory.synchronize()
        var isChanged = false
        for entry in try directory.entries() {
            guard goesOn() else { throw .EINTR }
            do throws(Errno) {
                if try self.look(at: entry, in: directory, path, isOrdinary, look, found, goesOn) { isChanged = true }
            } catch {
                guard look.isMounted, error == .ENOENT else { throw error }
            }
        }
        if isChanged { try directory.synchronize() }
    }

    /// - Returns: whether the entry was removed.
    private mutating func look(
        at entry: DirectoryEntry, in directory: BackingDirectory, _ path: [UInt8], _ isOrdinary: Bool,
        _ look: Look, _ found: ([UInt8], FormerKey) -> Void, _ goesOn: () -> Bool
    ) throws(Errno) -> Bool {
        let name = Array(entry.name.bytes)
        let below = path.isEmpty ? name : path + [UInt8(ascii: "/")] + name
        let form = ReservedName.kind(of: name.span)
        if form == .unknownReserved { hasNewer = true }
        let isFile = isOrdinary && (form == .encoded || form == .long)
        let isLeftover = isOrdinary && form == .temporary
        var kind = entry.kind
        if kind == .unknown { kind = try directory.status(of: entry.name).kind }
        switch kind {
        case .directory:
            try self.look(in: directory.openDirectory(entry.name), below, isFile, look, found, goesOn)
        case .regular:
            if form == .late { late = late ?? below }
            let file = try directory.openFile(entry.name, .readOnly)
            switch try Self.header(of: file, look) {
            case .none: break
            case .newer: hasNewer = true
            case .damaged: if isFile { damaged = damaged ?? below }
            case .names(let key):
                if isLeftover, look.leftovers.contains(key) {
                    try directory.unlink(entry.name)
                    return true
                }
                if keys.insert(key).inserted { examples[key] = below }
                if isFile || isLeftover { found(below, key) }
            }
        default: break
        }
        return false
    }

    /// Whether an entry is a copy that a killed rewriting of a file has left: a temporary name with the header of a file.
    static func isLeftover(
        _ name: EntryName, in directory: BackingDirectory, _ metadata: MetadataKeys
    ) throws(Errno) -> Bool {
        guard ReservedName.kind(of: name.bytes.span) == .temporary, try directory.status(of: name).kind == .regular
        else {
            return false
        }
        let look = Look(metadata: metadata, isMounted: true, leftovers: [])
        if case .names = try header(of: directory.openFile(name, .readOnly), look) { return true }
        return false
    }

    private enum Header {
        /// An empty file may have no header yet. A file whose first bytes are zeros has no wrapped key.
        case none
        case newer
        case damaged
        case names(FormerKey)
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
            return .names(FormerKey(number: header.protectionClass.rawValue, generation: header.keyGeneration))
        }
        return .damaged
    }
}
