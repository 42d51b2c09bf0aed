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
            guard let header = try Self.firstPage(in: context, backing, length: length, into: &buffer) else {
                if now.pageZero == .missing { return }
                throw .damaged(.missingHeader)
            }
            guard header.fileID == now.header.fileID else { throw .stale }
            // An empty file gets a new key, and with it a new wrap.
            if !header.wrappedKey.span.hasSameBytes(as: now.header.wrappedKey.span) { fileKeys.wipe() }
            state.withLock { $0.header = header }
            do throws(VolumeError) {
                try recover(length: length, .other, &buffer)
            } catch {
                // The new class is not proven, so the file keeps the old one. If it is closed it counts: with the
                // former header the content would stay open here.
                if case .locked = error {
                    state.withLock { $0.isUnproven = true }
                } else {
                    state.withLock { $0.header = now.header }
                }
                fileKeys.wipe()
                throw error
            }
        }
        // What this machine has mended needs no mending because another one has written, unless that one crashed.
        let isWhole = now.recovery.repair == .none && now.pageZero == .written
        state.withLock { state in
            if isWhole, !state.recovery.hasEvidence { state.recovery.repair = .none }
            state.isUnproven = false
            state.durability.growth += 1
        }
        return status
    }

    /// Whether rule R5 has nothing to mend: another machine has written the file last, and did not crash. The caller holds all of it.
    ///
    /// Then nothing is rewritten or synced, although this mount will write page 0 under its own epoch: until that epoch is closed,
    /// which makes the whole file durable, it counts as one that ended badly.
    func isWhole(_ now: FileState, _ access: Operation) throws(VolumeError) -> Bool {
        guard !now.recovery.hasEvidence, now.pageZero == .written else { return false }
        let last = lastBlock(size: now.size)
        let mayHaveHoles = now.header.flags.contains(.holes)
        var block: UInt64 = 1
        while block < last {
            let data = nextDataBlock(from: block, below: last)
            guard data == block || mayHaveHoles else { return false }
            let end = min(data + 64, last)
            if data < end, try repairMiddle(data..<end, now, access, isDry: true) { return false }
            block = end
        }
        return true
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

    /// Writes at the end, wherever that is now (O_APPEND). Two machines that append to one file lose nothing.
    package func append(_ data: Span<UInt8>) throws(VolumeError) {
        guard !data.isEmpty else { return }
        try prepareToModify(.write)
        try holdingStore(exclusive: true) { () throws(VolumeError) in
            let now = snapshot
            let (end, overflow) = now.size.addingReportingOverflow(UInt64(data.count))
            guard !overflow, end <= geometry.maximumSize else { throw .refused(.EFBIG) }
            let last = lastBlock(size: now.size)
            let first = geometry.locate(now.size).block
            var plan = WritePlan(
                offset: now.size, end: end, newSize: end, first: first, final: geometry.locate(end - 1).block)
            if last < first { plan.former = last }
            try perform(plan, data, now, .write)
        }
        times.moved()
    }

    /// The state for a read without the store's lock. It tolerates no crash damage, because what another machine is just writing
    /// looks the same; a read under that lock decides.
    var readingState: FileState {
        var now = snapshot
        if context.isShared { now.recovery.isTolerant = false }
        return now
    }
}

extension VolumeError {
    /// Another machine holds the content of the file, and the caller was not to wait for it.
    package static let heldElsewhere = VolumeError.store(.EAGAIN)
}

extension ContentContext {
    /// How long an operation waits for a machine that holds the lock. A machine that died holds it until the store notices,
    /// which takes GlusterFS 42 s and NFS 90 s.
    private static let patience: UInt64 = 120_000_000_000
    /// The same if several threads wait already, so that one stuck machine does not stop the whole mount.
    private static let shortPatience: UInt64 = 2_000_000_000
    /// The number of threads that wait with patience.
    private static let mostPatient = 3

    /// Takes the store's lock of a file's content. The caller uses the handle alone.
    ///
    /// It asks again and again, because a call that waits could not be ended.
    /// - Throws: `.store(.ETIMEDOUT)` if another machine does not release it.
    func lock(_ file: BackingFile, exclusive: Bool) throws(VolumeError) {
        guard isShared else { return }
        try patiently { () throws(VolumeError) in try lockAtOnce(file, exclusive: exclusive) ? true : nil }
    }

    /// Takes the store's lock of a file's content unless another machine holds it. Returns whether it has it.
    func lockAtOnce(_ file: BackingFile, exclusive: Bool) throws(VolumeError) -> Bool {
        guard isShared else { return true }
        do throws(Errno) {
            try file.setLock(exclusive ? .exclusive : .shared, LockRange.content, waits: false)
        } catch {
            if error == .EAGAIN || error == .EACCES { return false }
            throw .store(error)
        }
        if cutNeedsSync { file.forgetCached() }
        return true
    }

    /// Repeats `attempt` until it has a result. It gives nil while another machine holds the lock that it needs.
    /// - Throws: `.store(.ETIMEDOUT)` if another machine does not release it.
    @discardableResult
    package func patiently<Result>(_ attempt: () throws(VolumeError) -> Result?) throws(VolumeError) -> Result {
        if let result = try attempt() { return result }
        let began = monotonicNanoseconds()
        var pause: UInt32 = 50
        storeWaits.add(1, ordering: .relaxed)
        defer { storeWaits.subtract(1, ordering: .relaxed) }
        while true {
            let waits = storeWaits.load(ordering: .relaxed)
            let limit = waits <= Self.mostPatient ? Self.patience : Self.shortPatience
            guard nanoseconds(from: began, to: monotonicNanoseconds()) < limit else { throw .store(.ETIMEDOUT) }
            sleep(microseconds: pause)
            pause = min(pause * 2, 2000)
            if let result = try attempt() { return result }
        }
    }

    /// Runs `body` while no other machine changes a file, whose handle nobody else uses.
    func locking<Result: ~Copyable>(
        _ file: BackingFile, exclusive: Bool = false, waits: Bool = true, _ body: () throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        if waits {
            try lock(file, exclusive: exclusive)
        } else if try !lockAtOnce(file, exclusive: exclusive) {
            throw .heldElsewhere
        }
        do throws(VolumeError) {
            let result = try body()
            unlock(file)
            return result
        } catch {
            unlock(file)
            throw error
        }
    }

    /// Releases it.
    func unlock(_ file: BackingFile) {
        guard isShared else { return }
        try? file.setLock(.none, LockRange.content, waits: false)
    }
}
