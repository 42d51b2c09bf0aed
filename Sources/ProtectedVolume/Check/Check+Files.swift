// Checks files: the header, every block and every attribute. Repairs what a crash has left unfinished.

internal import BackingStore
internal import Keybag
internal import HostSystem
internal import SodiumKit
internal import VolumeFormat

extension Check {
    /// The limit of blocks reported for one file.
    private static var mostBlocks: Int { 64 }

    /// What the check of one file's content has found.
    private struct Outcome {
        /// The number of errors reported.
        var errors = 0
        /// The number of errors that are read errors of the store.
        var unread = 0
        /// Whether a newer version has made a part of the file. Only that version can mend or salvage it.
        var isNewer = false
    }

    /// Checks one file; a hard-linked file once.
    func look(atFile node: Node, _ place: Place, _ status: Status, _ paths: ObjectPaths) {
        count { summary in
            summary.files += 1
            summary.opened += 1
        }
        var paths = paths
        var outcome = Outcome()
        var advanced: UInt64 = 0
        defer {
            advance(max(weight(of: status), advanced) - advanced)
            // Nothing opens it again.
            volume.trueSizes.withLock { _ = $0.removeValue(forKey: node.key) }
        }
        do throws(VolumeError) {
            let header = try volume.header(of: node)
            if let header {
                if header.flags.areReadableOnly {
                    found(.newer(.header), paths)
                    outcome.isNewer = true
                    paths.isKept = true
                } else {
                    noteID(header.fileID, node)
                }
                if header.flags.contains(.keyExposed) { found(.keyExposed, .note, paths) }
                checkAttributes(of: node, paths)
            }
        } catch {
            found(error, paths)
            guard case .damaged(let damage) = error else { return }
            return repair(headerOf: node, place, damage, paths)
        }
        do throws(VolumeError) {
            try volume.withContent(node, writable: mends && !paths.isKept) { (content) throws(VolumeError) in
                try checkContent(content, paths, &advanced, &outcome)
            }
        } catch {
            switch error {
            case .locked(let protectionClass): skip(protectionClass)
            // The late file is reported itself.
            case .newer(.late): skip(.complete)
            case .newer:
                found(error, paths)
                outcome.isNewer = true
            default:
                found(error, paths)
                if Self.isOfContent(error) { outcome.errors = 1 }
                if case .store = error { outcome.unread = 1 }
            }
        }
        outcome.errors += tellCrashEvidence(of: node, paths, isNewer: outcome.isNewer)
        if outcome.errors > 0, repairs, !outcome.isNewer, !paths.isKept, !hasNewerAttribute(node) {
            salvage(node, place, status, paths, errors: outcome.errors, areUnread: outcome.unread == outcome.errors)
        }
    }

    /// Counts a file whose content cannot be read now.
    private func skip(_ protectionClass: ProtectionClass) {
        state.withLock { $0.summary.unchecked[protectionClass, default: 0] += 1 }
    }

    private func checkContent(
        _ content: FileContent, _ paths: ObjectPaths, _ advanced: inout UInt64, _ outcome: inout Outcome
    ) throws(VolumeError) {
        if let scope, scope.readsByEnds, !content.needsRepair { return }
        state.withLock { $0.summary.read += 1 }
        var offset: UInt64 = 0
        var buffer = try Self.buffer()
        while offset < content.size {
            guard mayGoOn() else { return }
            let data = content.skippingHoles(from: offset)
            if data > offset {
                advance(data - offset)
                advanced += data - offset
                offset = data
                continue
            }
            do throws(VolumeError) {
                let count = try Self.verify(content, at: offset, FileContent.largestRequest, &buffer)
                guard count > 0 else { break }
                offset += UInt64(count)
                advance(UInt64(count))
                advanced += UInt64(count)
                self.count(bytes: UInt64(count))
            } catch {
                guard Self.isOfContent(error) || error == .newer(.block) else { throw error }
                offset = locate(content, from: offset, &outcome, &buffer, paths)
                if outcome.errors >= Self.mostBlocks { break }
            }
        }
        guard mends, !paths.isKept, outcome.errors == 0, !outcome.isNewer, content.needsRepair else { return }
        if offset >= content.size, !content.isUnmended, !hasEvidence(content.inode) {
            // It only might have been damaged. It reads the same once its epoch is closed, so only what was read must be durable.
            // On a store that keeps order the end of the check syncs all of it.
            if volume.content.cutNeedsSync { try content.synchronize(dataOnly: false) }
            return
        }
        try content.repair()
        did(Repair(action: .mended, path: paths.visible, backingPath: paths.backing), settling: 0) { $0.mended += 1 }
    }

    /// Whether the file that is being checked shows traces of a crash.
    private func hasEvidence(_ inode: UInt64) -> Bool {
        state.withLock { $0.evidence[inode]?.isEmpty == false }
    }

    /// Whether an error means damage of some bytes, so that others of the file can be read.
    private static func isOfContent(_ error: VolumeError) -> Bool {
        switch error {
        case .damaged, .store(.EIO): true
        default: false
        }
    }

    /// Checks block by block through a megabyte that does not verify. Returns the position at which to continue.
    private func locate(
        _ content: FileContent, from offset: UInt64, _ outcome: inout Outcome, _ buffer: inout LockedBuffer,
        _ paths: ObjectPaths
    ) -> UInt64 {
        let geometry = volume.content.geometry
        let end = min(offset + UInt64(FileContent.largestRequest), content.size)
        var position = offset
        while position < end {
            let (block, inBlock) = geometry.locate(position)
            let rest = geometry.capacity(ofBlock: block) - inBlock
            do throws(VolumeError) {
                _ = try Self.verify(content, at: position, rest, &buffer)
            } catch {
                if case .newer = error {
                    // One of them is enough, because all of the file is left alone.
                    if !outcome.isNewer { found(error, paths, page: block) }
                    outcome.isNewer = true
                } else if outcome.errors < Self.mostBlocks {
                    outcome.errors += 1
                    found(error, paths, page: block)
                    if case .store = error { outcome.unread += 1 }
                }
            }
            position += UInt64(rest)
        }
        return position
    }

    private static func buffer() throws(VolumeError) -> LockedBuffer {
        do throws(SodiumError) {
            return try BufferPool.shared.take(
                atLeast: FileContent.bufferLength(count: FileContent.largestRequest))
        } catch { throw .store(.ENOMEM) }
    }

    private static func verify(
        _ content: FileContent, at offset: UInt64, _ count: Int, _ buffer: inout LockedBuffer
    ) throws(VolumeError) -> Int {
        try buffer.withMutableBytes(count: FileContent.bufferLength(count: count)) {
            (bytes: inout MutableSpan<UInt8>) throws(VolumeError) in
            let result = try content.read(into: &bytes, at: offset, count: count)
            let read = result.range.count
            result.finish()
            return read
        }
    }

    /// Reports the crash evidence of one file. Returns the number of errors among it.
    ///
    /// - Parameter isNewer: nothing is reported, because what departs from this version's rules may follow a newer one's.
    private func tellCrashEvidence(of node: Node, _ paths: ObjectPaths, isNewer: Bool) -> Int {
        var errors = 0
        let evidence = state.withLock { $0.evidence.removeValue(forKey: node.inode) ?? [] }
        if isNewer { return 0 }
        for one in Set(evidence) {
            switch one.kind {
            // What mending itself does. Without mending the same places are reported.
            case .repaired, .madeSparse: break
            case .damagedPage:
                found(.block, .error, paths, page: one.page)
                errors += 1
            default: found(.crashDamage, .crash, paths, page: one.page, crashEvidence: one.kind)
            }
        }
        return errors
    }
}
