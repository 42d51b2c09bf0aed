// Checks files: the header, every block and every attribute. Repairs what a crash has left unfinished.

internal import BackingStore
internal import Keybag
internal import HostSystem
internal import SodiumKit
internal import VolumeFormat

extension Check {
    /// The limit of blocks reported for one file.
    private static var mostBlocks: Int { 64 }

    /// Checks one file; a hard-linked file once.
    func look(atFile node: Node, _ place: Place, _ status: Status, _ paths: ObjectPaths) {
        count { $0.files += 1 }
        var errors = 0
        // The number of errors that are read errors of the store.
        var unread = 0
        var advanced: UInt64 = 0
        defer { advance(max(Self.weight(of: status), advanced) - advanced) }
        do throws(VolumeError) {
            let header = try volume.header(of: node)
            if let header {
                noteID(header.fileID, paths)
                if header.flags.contains(.keyExposed) { found(.keyExposed, .note, paths) }
                checkAttributes(of: node, paths)
            }
        } catch {
            found(error, paths)
            guard case .damaged(let damage) = error else { return }
            return repair(headerOf: node, place, damage, paths)
        }
        do throws(VolumeError) {
            errors = try volume.withContent(node, writable: mends) { (content) throws(VolumeError) in
                try checkContent(content, paths, &advanced, &unread)
            }
        } catch {
            if case .locked(let protectionClass) = error {
                state.withLock { $0.summary.unchecked[protectionClass, default: 0] += 1 }
            } else {
                found(error, paths)
                if Self.isOfContent(error) { errors = 1 }
                if case .store = error { unread = 1 }
            }
        }
        errors += tellCrashEvidence(of: node, paths)
        if errors > 0, options.repairs {
            salvage(node, place, status, paths, errors: errors, areUnread: unread == errors)
        }
    }

    /// - Returns: the number of errors reported.
    private func checkContent(
        _ content: FileContent, _ paths: ObjectPaths, _ advanced: inout UInt64, _ unread: inout Int
    ) throws(VolumeError) -> Int {
        var damagedBlocks = 0
        var offset: UInt64 = 0
        var buffer = try Self.buffer()
        while offset < content.size {
            guard mayGoOn() else { return 0 }
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
                guard Self.isOfContent(error) else { throw error }
                offset = locate(content, from: offset, &damagedBlocks, &unread, &buffer, paths)
                if damagedBlocks >= Self.mostBlocks { break }
            }
        }
        guard mends, damagedBlocks == 0, content.needsRepair else { return min(damagedBlocks, Self.mostBlocks) }
        try content.repair()
        state.withLock { $0.summary.mended += 1 }
        found(.mended, .crash, paths)
        return 0
    }

    /// Whether an error affects only some bytes, so that others of the file can be read.
    private static func isOfContent(_ error: VolumeError) -> Bool {
        switch error {
        case .damaged, .store(.EIO): true
        default: false
        }
    }

    /// Checks block by block through a megabyte that does not verify. Returns the position at which to continue.
    private func locate(
        _ content: FileContent, from offset: UInt64, _ damaged: inout Int, _ unread: inout Int,
        _ buffer: inout LockedBuffer,
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
                damaged += 1
                if damaged <= Self.mostBlocks {
                    found(error, paths, page: block)
                    if case .store = error { unread += 1 }
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
    private func tellCrashEvidence(of node: Node, _ paths: ObjectPaths) -> Int {
        var errors = 0
        let evidence = state.withLock { $0.evidence.removeValue(forKey: node.inode) ?? [] }
        for one in Set(evidence) {
            switch one.kind {
            case .repaired: break
            case .damagedPage:
                found(.block, .error, paths, page: one.page)
                errors += 1
            default: found(.crashDamage, .crash, paths, page: one.page, crashEvidence: one.kind)
            }
        }
        return errors
    }
}
