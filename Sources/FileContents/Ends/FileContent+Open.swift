// Opening a file: the header's MAC, block 0, the last page, and recovery rules R0 to R3.

package import BackingStore
package import KeyFiles
internal import Keybag
internal import HostSystem
internal import SodiumKit
package import VolumeFormat

extension FileContent {
    /// Opens the content of an existing file. Verifies header, block 0 and last page before it uses them.
    ///
    /// - Parameters:
    ///   - status: of the backing file, which was just opened; nil to ask for it.
    ///   - inheritedClass: the parent's default class. A file without header (rule R0) takes it.
    ///   - staysLoose: whether the content stays among the loose keys of `context`. The caller takes it out.
    ///   - waits: whether it waits for another machine that changes the file.
    /// - Throws: `.locked` if the class is closed; `.damaged` if no crash explains the damage; `.newer`;
    ///   `.heldElsewhere`.
    package static func open(
        in context: ContentContext, backing: BackingFile, _ status: Status? = nil, access: Operation = .open,
        inheritedClass: ProtectionClass = .volumeDefault, staysLoose: Bool = false, waits: Bool = true
    ) throws(VolumeError) -> FileContent {
        try context.locking(backing, waits: waits) { () throws(VolumeError) in
            // Another machine may have changed the file before this one had the lock.
            try openLocked(in: context, backing, context.isShared ? nil : status, access, inheritedClass, staysLoose)
        }
    }

    private static func openLocked(
        in context: ContentContext, _ backing: BackingFile, _ status: Status?, _ access: Operation,
        _ inheritedClass: ProtectionClass, _ staysLoose: Bool
    ) throws(VolumeError) -> FileContent {
        let now: Status
        do throws(Errno) { now = if let status { status } else { try backing.status() } } catch { throw .store(error) }
        return try context.buffers.withBuffer(pageCount: 2) {
            (buffer: inout CipherBuffer) throws(VolumeError) -> FileContent in
            guard let header = try context.firstPage(of: backing, length: now.size, into: &buffer) else {
                return try missing(in: context, backing, now, access, inheritedClass)
            }
            let content = FileContent(
                context: context, backing: backing, inode: now.inode,
                keys: FileKeys(nil, suite: header.suite),
                state: FileState(
                    header: header, size: 0, pageZero: .written))
            context.looseKeys.begin(content)
            do throws(VolumeError) { try content.recover(length: now.size, access, &buffer) } catch {
                context.looseKeys.end(content)
                throw error
            }
            if !staysLoose { context.looseKeys.end(content) }
            return content
        }
    }

    /// The header of a file that is not open. Checks its MAC, which needs no key of the file. Nil if the header was
    /// never written (rule R0): the file is empty and has its parent's default class.
    package static func header(in context: ContentContext, backing: BackingFile) throws(VolumeError) -> FileHeader? {
        try context.locking(backing) { () throws(VolumeError) -> FileHeader? in
            let length = try status(in: context, of: backing).size
            return try context.buffers.withBuffer(pageCount: 1) {
                (buffer: inout CipherBuffer) throws(VolumeError) -> FileHeader? in
                try context.firstPage(of: backing, length: length, into: &buffer)
            }
        }
    }

    /// The status of a file that is not open. One that had no page when it was looked at may have one now: the end of the last handle
    /// writes the header of an empty file, and a program may rename the file meanwhile.
    private static func status(in context: ContentContext, of backing: BackingFile) throws(VolumeError) -> Status {
        do throws(Errno) {
            if !context.isShared {
                let status = try backing.statusWhenOpened()
                if status.size >= UInt64(PageGeometry.pageSize) { return status }
            }
            return try backing.status()
        } catch { throw .store(error) }
    }

    /// The same, proven by block 0, which verifies only with this header. Decisions about a class need this proof: a
    /// header alone may be from another file or from an earlier class.
    ///
    /// - Parameter isReplaced: whether the file is about to be replaced, so that its last block must be known, too.
    /// - Throws: `.locked` if the class that the header claims is closed, so that nothing can be proven. `.newer` then needs no
    ///   proof.
    package static func verifiedHeader(
        in context: ContentContext, backing: BackingFile, isReplaced: Bool = false
    ) throws(VolumeError) -> FileHeader? {
        do throws(VolumeError) {
            let found = try verifiedHeaderAtOnce(in: context, backing, isReplaced)
            if found != nil || !context.isShared { return found }
        } catch {
            switch error {
            case .damaged, .newer: if !context.isShared { throw error }
            default: throw error
            }
        }
        // What another machine is just writing looks the same.
        return try context.locking(backing) { () throws(VolumeError) in
            try verifiedHeaderAtOnce(in: context, backing, isReplaced)
        }
    }

    private static func verifiedHeaderAtOnce(
        in context: ContentContext, _ backing: BackingFile, _ isReplaced: Bool
    ) throws(VolumeError) -> FileHeader? {
        let status = try status(in: context, of: backing)
        return try context.buffers.withBuffer(pageCount: 2) {
            (buffer: inout CipherBuffer) throws(VolumeError) -> FileHeader? in
            guard let header = try context.firstPage(of: backing, length: status.size, into: &buffer) else {
                return nil
            }
            let content = FileContent(
                context: context, backing: backing, inode: status.inode, keys: FileKeys(nil, suite: header.suite),
                state: FileState(
                    header: header, size: 0, pageZero: .written))
            context.looseKeys.begin(content)
            defer {
                context.looseKeys.end(content)
                content.wipeKeys()
            }
            do throws(VolumeError) { _ = try content.verify(.open, &buffer, tail: nil) } catch {
                guard case .locked = error else { throw error }
                if try content.isNewer(0, at: 0, &buffer) { throw content.told(.newer(.block)) }
                if isReplaced { try content.requireKnownEnd(length: status.size, &buffer) }
                throw error
            }
            if isReplaced { try content.requireKnownEnd(length: status.size, &buffer) }
            return header
        }
    }

    /// R0: makes the file empty. Its new header waits in memory for the first modification.
    private static func missing(
        in context: ContentContext, _ backing: BackingFile, _ status: Status, _ access: Operation,
        _ inheritedClass: ProtectionClass
    ) throws(VolumeError) -> FileContent {
        let file = try newFile(
            in: context, class: inheritedClass, flags: [], access)
        let content = FileContent(
            context: context, backing: backing, inode: status.inode,
            keys: FileKeys(nil, suite: file.header.suite),
            state: FileState(
                header: file.header, size: 0, pageZero: .missing))
        content.fileKeys.install(file.takeKey())
        content.reportEvidence(.missingHeader, page: 0)
        return content
    }

    /// Applies rules R1 to R3. Page 0 is in the buffer already.
    func recover(length: UInt64, _ access: Operation, _ buffer: inout CipherBuffer) throws(VolumeError) {
        let pages = PageGeometry.pages(backingLength: length)
        // The length is from before page 0 was read. Another program may have written the file in between.
        guard (1...PageGeometry.maximumPages).contains(pages) else { throw .damaged(.length) }
        if pages > 1 { try buffer.read(pages - 1..<pages, of: backing, to: 1) }
        let (first, tail) = try verify(access, &buffer, tail: pages > 1 ? pages - 1 : nil)
        var end = End(page: 0, field: first)
        var evidence: [(CrashEvidence.Kind, UInt64)] = []
        if pages > 1 {
            if let tail {
                end = End(page: pages - 1, field: tail)
            } else if let page = try lastNonZeroPage(below: pages, &buffer) {
                try buffer.read(page..<page + 1, of: backing, to: 1)
                if !first.isLast {
                    end = End(page: page, field: try verifyPage(page, access, &buffer))
                } else {
                    end.page = page
                }
            }
            if first.isLast {
                if end.page > 0 {
                    // Later pages may be under an older key, so page 0's epoch is tested first. A newer page is never dropped.
                    let field: BlockField?
                    do throws(VolumeError) { field = try verifyPage(end.page, access, &buffer) } catch {
                        guard case .damaged = error, context.epochs.isTolerated(first.epoch) else { throw error }
                        field = nil
                    }
                    if !context.epochs.isTolerated(first.epoch) {
                        guard let field, context.epochs.isTolerated(field.epoch) else { throw .damaged(.length) }
                    }
                    evidence.append((.droppedPages, 1))
                } else {
                    evidence.append((.droppedZeroPages, 1))
                }
                end = End(page: 0, field: first)
            }
        }
        let isTolerated = context.epochs.isTolerated(first.epoch) || context.epochs.isTolerated(end.field.epoch)
        let start = geometry.start(ofBlock: end.page)
        let size: UInt64
        if end.field.isLast {
            size = start + UInt64(end.field.payloadLength)
            if end.page < pages - 1, evidence.isEmpty { evidence.append((.droppedZeroPages, end.page + 1)) }
        } else {
            guard isTolerated else { throw .damaged(.length) }
            let isWhole = end.page == pages - 1 || header.flags.contains(.holes)
            size = isWhole ? geometry.sizeByLength(length) : start + UInt64(geometry.capacity(ofBlock: end.page))
            evidence.append((.unfinishedEnd, end.page))
        }
        if evidence.isEmpty, geometry.backingLength(size: size) != length {
            evidence.append((.lengthMismatch, end.page))
        }
        let version = max(first.epoch, end.field.epoch)
        let isSuspect = context.epochs.isSuspect(first.epoch) || context.epochs.isSuspect(end.field.epoch)
        try compare(version, isSuspect: isSuspect)
        let isOurs = context.epochs.isOwn(first.epoch)
        let needsAll = isTolerated || evidence.contains { $0.0 == .droppedPages }
        let hasEvidence = !evidence.isEmpty
        let recovery = Recovery(
            repair: needsAll ? .full : hasEvidence ? .end : .none, hasEvidence: hasEvidence, isTolerant: isTolerated,
            suspectEpoch: context.epochs.isTolerated(first.epoch)
                ? first.epoch : context.epochs.isTolerated(end.field.epoch) ? end.field.epoch : nil)
        let isDurable = !context.epochs.isOwn(version)
        state.withLock { $0.found(size: size, isOurs: isOurs, version: (version, isDurable), recovery) }
        if needsAll, !hasEvidence { resumeMending(pageZero: first.epoch) }
        for (kind, page) in evidence { reportEvidence(kind, page: page) }
    }

    /// Compares the file's version with the one that this machine has seen, and learns it.
    ///
    /// - Parameter isSuspect: whether a session that ended badly has written one of the ends. Its crash may have put them back, and
    ///   what it wrote may not be durable.
    private func compare(_ version: UInt32, isSuspect: Bool) throws(VolumeError) {
        guard let seen = context.seen else { return }
        // A clock was wrong: nothing could be written above it.
        guard context.epochs.follows(version) else { return seen.forget(fileID) }
        let isSettled = !isSuspect && !context.epochs.isOwn(version)
        guard seen.compare(fileID, version, isSettled: isSettled, toleratesOlder: isSuspect) != nil else { return }
        context.reportOlder(inode)
        if context.options.refusesOlder { throw .damaged(.older) }
    }

    private struct End {
        var page: UInt64
        var field: BlockField
    }

    /// Checks the access, unwraps the key, and verifies block 0 and the page at `tail` unless that is zero, in one
    /// hold.
    private func verify(
        _ access: Operation, _ buffer: inout CipherBuffer, tail: UInt64?
    ) throws(VolumeError) -> (BlockField, BlockField?) {
        var scratch = try takeScratch()
        let header = self.header
        return try withKeys(access) { (_) throws(VolumeError) in
            try scratch.withMutableBytes(count: PageGeometry.pageSize) {
                (plain: inout MutableSpan<UInt8>) throws(VolumeError) in
                var codec = PageCodec(geometry: geometry, keys: fileKeys, header: header)
                guard case .block(let first) = try buffer.open(0, block: 0, &codec, into: &plain)
                else { throw .damaged(.block) }
                guard let tail, !first.isLast,
                    case .block(let last) = try buffer.open(1, block: tail, &codec, into: &plain)
                else { return (first, nil) }
                return (first, last)
            }
        }
    }

    /// Verifies the page at `position` in the buffer, by default the second one.
    func verifyPage(
        _ block: UInt64, at position: Int = 1, _ access: Operation, _ buffer: inout CipherBuffer
    ) throws(VolumeError) -> BlockField {
        var scratch = try takeScratch()
        let header = self.header
        return try withKeys(access) { (_) throws(VolumeError) in
            try scratch.withMutableBytes(count: PageGeometry.pageSize) {
                (plain: inout MutableSpan<UInt8>) throws(VolumeError) in
                var codec = PageCodec(geometry: geometry, keys: fileKeys, header: header)
                guard case .block(let field) = try buffer.open(position, block: block, &codec, into: &plain) else {
                    throw .damaged(.zeroPage)
                }
                return field
            }
        }
    }

    /// The last page after page 0 and below `limit` that is not all zero; nil if there is none.
    private func lastNonZeroPage(below limit: UInt64, _ buffer: inout CipherBuffer) throws(VolumeError) -> UInt64? {
        for extent in backing.dataExtents(below: limit).reversed() {
            var page = extent.upperBound
            while page > extent.lowerBound {
                page -= 1
                try buffer.read(page..<page + 1, of: backing, to: 1)
                if !buffer.isZero(1) { return page }
            }
        }
        return nil
    }
}
