// Writes the files of a volume that is not mounted under the class keys in use, and finds which former keys are needed.

package import BackingStore
internal import HostSystem
package import Keybag
internal import SodiumKit
internal import VolumeFormat

/// What a run of a rotation has done.
package struct RotationSummary: Sendable {
    /// Files written under a new file key.
    package var files: UInt64 = 0
    /// Files that could not be, each reported.
    package var failed: UInt64 = 0
    /// Whether it was interrupted.
    package var isInterrupted = false
}

/// The former class keys that something in a store needs.
package struct NeededKeys: Sendable {
    /// Those that a header names which verifies.
    package var keys: Set<FormerKey> = []
    /// Whether late records wait, which are read with the keys of classes A and B.
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
        let late = [ProtectionClass.complete, .completeUnlessOpen].map(\.rawValue)
        return former.filter { !keys.contains($0) && !(hasLateRecords && late.contains($0.number)) }
    }
}

/// A rotation of class keys, after the keybag has the new ones.
///
/// Each file gets a new file key as by `Volume.reencrypt`: the old version or the new one is there after a crash, both readable.
/// So a run may end anywhere, and the next one goes on with the files whose headers name a former generation.
package final class KeyRotation {
    private let volume: Volume
    private let advance: (UInt64, UInt64) -> Bool
    private let report: ([UInt8], VolumeError) -> Void
    private var summary = RotationSummary()
    private var bytes: UInt64 = 0

    private init(
        _ volume: Volume, advance: @escaping (UInt64, UInt64) -> Bool,
        report: @escaping ([UInt8], VolumeError) -> Void
    ) {
        self.volume = volume
        self.advance = advance
        self.report = report
    }

    /// Writes every file anew whose key is wrapped by a former class key. The caller has claimed `directory`.
    ///
    /// - Parameters:
    ///   - keys: the keys of an unlocked volume.
    ///   - states: the file that lists the open epochs.
    ///   - advance: gets the files and bytes done, often. It may wait, to bound the rate. Returns whether to go on.
    ///   - notice: is told of damage that is tolerated, as a mount tells it.
    ///   - report: gets the path of each file that could not be written, and the reason.
    package static func run(
        directory: BackingDirectory, keys: KeyRing, states: StateFileStore,
        advance: @escaping (_ files: UInt64, _ bytes: UInt64) -> Bool,
        notice: @escaping @Sendable (VolumeNotice) -> Void,
        report: @escaping (_ path: [UInt8], VolumeError) -> Void
    ) throws(VolumeError) -> RotationSummary {
        let volume = try Volume(
            directory: directory, keys: keys, state: states, options: VolumeOptions(), report: notice)
        let rotation = KeyRotation(volume, advance: advance, report: report)
        _ = rotation.visit(volume.root, [])
        try volume.close()
        return rotation.summary
    }

    /// Visits the entries of a directory. False after an interruption.
    private func visit(_ directory: Node, _ path: [UInt8]) -> Bool {
        // The whole listing comes first, because the rewriting changes the directory.
        var names: [[UInt8]] = []
        do throws(VolumeError) {
            try volume.list(directory, from: 0, plus: false) { entry in
                if entry.name != Array(".".utf8), entry.name != Array("..".utf8) { names.append(entry.name) }
                return true
            }
        } catch {
            fail(path, error)
        }
        for name in names {
            guard advance(summary.files, bytes) else {
                summary.isInterrupted = true
                return false
            }
            let below = path.isEmpty ? name : path + [UInt8(ascii: "/")] + name
            do throws(VolumeError) {
                let node = try volume.lookup(name.span, in: directory).node
                defer { volume.forget(node, count: 1) }
                switch node.kind {
                case .directory: guard visit(node, below) else { return false }
                case .file: try rewrite(node)
                default: break
                }
            } catch {
                fail(below, error)
            }
            if summary.isInterrupted { return false }
        }
        return true
    }

    private func rewrite(_ node: Node) throws(VolumeError) {
        guard let header = try volume.header(of: node) else { return }
        let protectionClass = header.protectionClass
        let inUse = volume.keys.withState { $0.generation(of: protectionClass) }
        guard header.keyGeneration != inUse else { return }
        let (files, before) = (summary.files, bytes)
        var done: UInt64 = 0
        do throws(VolumeError) {
            try volume.reencrypt(node, to: protectionClass, explicit: false) { now in
                done = now
                return advance(files, before &+ now)
            }
        } catch .refused(.EINTR) {
            summary.isInterrupted = true
            return
        }
        summary.files += 1
        bytes &+= done
    }

    private func fail(_ path: [UInt8], _ error: VolumeError) {
        summary.failed += 1
        report(path, error)
    }

    // MARK: which keys are needed

    /// Reads the header of every file of the store, under whatever name, and makes every directory durable. So what a former key
    /// is not needed for now is not needed after a crash either.
    ///
    /// - Parameter goesOn: asked often; false ends it with EINTR.
    /// - Throws: the store's error if anything cannot be read.
    package static func neededKeys(
        in directory: BackingDirectory, keys: KeyRing, goesOn: () -> Bool = { true }
    ) throws(VolumeError) -> NeededKeys {
        var needed = NeededKeys()
        do throws(Errno) { try look(in: directory, [], true, keys, &needed, goesOn) } catch { throw .store(error) }
        return needed
    }

    /// - Parameter isOrdinary: whether files of the mount are in the directory, and not what a check has moved away.
    private static func look(
        in directory: BackingDirectory, _ path: [UInt8], _ isOrdinary: Bool, _ keys: KeyRing,
        _ needed: inout NeededKeys, _ goesOn: () -> Bool
    ) throws(Errno) {
        try directory.synchronize()
        for entry in try directory.entries() {
            guard goesOn() else { throw .EINTR }
            let name = Array(entry.name.bytes)
            let below = path.isEmpty ? name : path + [UInt8(ascii: "/")] + name
            let form = ReservedName.kind(of: name.span)
            if form == .unknownReserved { needed.hasNewer = true }
            let isFile = isOrdinary && (form == .encoded || form == .long)
            var kind = entry.kind
            if kind == .unknown { kind = try directory.status(of: entry.name).kind }
            switch kind {
            case .directory:
                try look(in: directory.openDirectory(entry.name), below, isFile, keys, &needed, goesOn)
            case .regular:
                if form == .late { needed.hasLateRecords = true }
                let file = try directory.openFile(entry.name, .readOnly)
                if try !look(at: file, below, keys, &needed), isFile { needed.damaged = needed.damaged ?? below }
            default: break
            }
        }
    }

    /// - Returns: false if the file has a header that does not verify.
    private static func look(
        at file: BackingFile, _ path: [UInt8], _ keys: KeyRing, _ needed: inout NeededKeys
    ) throws(Errno) -> Bool {
        var bytes = [UInt8](repeating: 0, count: FileHeader.length)
        var span = bytes.mutableSpan
        let count = try file.read(into: &span, at: 0)
        // An empty file may have no header yet.
        guard count == FileHeader.length else { return count == 0 }
        let expected = keys.metadata.headerMAC(over: bytes.span.extracting(FileHeader.authenticated))
        guard constantTimeEqual(expected.span, bytes.span.extracting(FileHeader.macRange)) else { return false }
        guard let header = try? FileHeader(parsing: bytes.span) else {
            needed.hasNewer = true
            return true
        }
        let key = FormerKey(number: header.protectionClass.rawValue, generation: header.keyGeneration)
        if needed.keys.insert(key).inserted { needed.examples[key] = path }
        return true
    }
}
