// The content of a file that other machines write, too (`-o shared`).
//
// Each change of a file, of its length or of its header is made under a lock in the store (`LockRange.content`). Under this
// lock the state that this machine keeps of the file is compared with the store first. An ordinary read takes no lock: what
// another machine is just writing does not verify, and is then read again under the lock.

internal import BackingStore
internal import HostSystem
package import KeyFiles
internal import Synchronization
internal import VolumeFormat

extension FileContent {
    /// Holds the whole file on this machine and in the store while `body` runs. The state of the file is current then.
    ///
    /// - Parameter exclusive: whether `body` changes the file.
    func holdingStore<Result: ~Copyable>(
        exclusive: Bool, _ body: () throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        // Several threads share the store's lock, which belongs to the handle, so only one of them may use it at a time.
        let hold = ranges.acquire(RangeLock.everything, exclusive: true)
        do throws(VolumeError) {
            let result = try context.locking(backing, exclusive: exclusive) { () throws(VolumeError) in
                let status = try catchUp()
                if exclusive { try requireNotReplaced(status) }
                if exclusive, snapshot.recovery.repair != .none { try mend(.other) }
                return try body()
            }
            ranges.release(hold)
            return result
        } catch {
            ranges.release(hold)
            throw error
        }
    }

    /// Reads header and end again if another machine has changed one of them. The caller holds the file in the store.
    /// - Returns: the status of the backing file; nil if nobody else knows the file.
    private func catchUp() throws(VolumeError) -> Status? {
        let now = snapshot
        guard now.pageZero != .pending else { return nil }
        let status = try store { () throws(Errno) in try backing.status() }
        let length = status.size
        if now.pageZero == .written, length == geometry.backingLength(size: now.size), !now.isUnproven,
            try hasHeader(now.header)
        {
            return status
        }
        try context.buffers.withBuffer(pageCount: 2) { (buffer: inout CipherBuffer) throws(VolumeError) in
            guard let header = try context.firstPage(of: backing, length: length, into: &buffer) else {
                if now.pageZero == .missing { return }
                throw .damaged(.missingHeader)
            }
            guard header.fileID == now.header.fileID else { throw .stale }
            // An empty file gets a new key, and with it a new wrap.
            if !header.wrappedKey.span.hasSameBytes(as: now.header.wrappedKey.span) { fileKeys.wipe() }
            state.withLock { $0.found(header: header) }
            do throws(VolumeError) {
                try recover(length: length, .other, &buffer)
            } catch {
                // The new class is not proven, so the file keeps the old one. If it is closed it counts: with the
                // former header the content would stay open here.
                if case .locked = error {
                    state.withLock { $0.foundUnproven() }
                } else {
                    state.withLock { $0.found(header: now.header) }
                }
                fileKeys.wipe()
                throw error
            }
        }
        // What this machine has mended needs no mending because another one has written, unless that one crashed.
        let isWhole = now.recovery.repair == .none && now.pageZero == .written
        state.withLock { $0.caughtUp(wasWhole: isWhole) }
        return status
    }

    /// Whether the store still has this header. The MAC covers all of it.
    private func hasHeader(_ header: FileHeader) throws(VolumeError) -> Bool {
        var bytes = InlineArray<128, UInt8>(repeating: 0)
        var raw = bytes.mutableSpan
        let count = try store { () throws(Errno) in try backing.read(into: &raw, at: 0) }
        return count == FileHeader.length
            && bytes.span.extracting(FileHeader.macRange).hasSameBytes(as: header.mac.span)
    }

    /// Brings the state of an open file up to date if its length has changed, or always. The caller holds no range.
    package func refresh(always: Bool = false) throws(VolumeError) {
        guard context.isShared, snapshot.pageZero == .written else { return }
        if !always {
            let length = try store { () throws(Errno) in try backing.status().size }
            guard length != geometry.backingLength(size: size) else { return }
        }
        try holdingStore(exclusive: false) { () throws(VolumeError) in }
    }

    /// Drops what this machine has cached of the file on a network file system. Called when a program has got a lock.
    package func forgetCached() {
        if context.isShared, context.cutNeedsSync { backing.forgetCached() }
    }

    /// The size of an open file whose backing file has this length now.
    package func size(backingLength: UInt64) -> UInt64 {
        let known = size
        guard context.isShared, geometry.backingLength(size: known) != backingLength else { return known }
        return geometry.size(backingLength: backingLength)
    }

    /// The state for a read without the store's lock. It tolerates no crash damage, because what another machine is just writing
    /// looks the same; a read under that lock decides.
    var readingState: FileState {
        let now = snapshot
        return context.isShared ? now.tolerating(false) : now
    }

    /// Holds `pages` while `body` runs. If other machines write, too, an exclusive hold is one of the whole file, on all of them.
    func holding<Result>(
        _ pages: Range<UInt64>, exclusive: Bool, _ body: () throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        if exclusive, context.isShared { return try holdingStore(exclusive: true, body) }
        let hold = ranges.acquire(pages, exclusive: exclusive)
        do throws(VolumeError) {
            let result = try body()
            ranges.release(hold)
            return result
        } catch {
            ranges.release(hold)
            throw error
        }
    }

    /// The attribute of a former inode, which a copy has replaced.
    static let replacedMark = AttributeName.replaced.bytes

    /// Throws `.stale` if another machine has put a copy in the place of the file: what is written here would be lost.
    /// A file that has only lost its name can be written.
    func requireNotReplaced(_ status: Status?) throws(VolumeError) {
        guard status?.links == 0, (try? backing.attribute(Self.replacedMark)) != nil else { return }
        throw .stale
    }
}
