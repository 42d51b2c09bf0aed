// The content of one open inode, and the tests that every request passes.

package import BackingStore
package import KeyFiles
package import Keybag
package import HostSystem
internal import SodiumKit
internal import Synchronization
package import VolumeFormat

/// The content of one open inode. All handles of the inode share one object. Thread-safe.
///
/// Requests on different pages run in parallel. Lock order: range lock, that of `times` (backing I/O), state lock of the `KeyRing`,
/// then this object's small locks, which are held for a few instructions only.
package final class FileContent: Sendable {
    /// The largest number of bytes that one `read` returns or one step of `write` takes.
    package static let largestRequest = 1 << 20

    /// The state that all files of the volume share.
    package let context: ContentContext
    /// The backing file, for its status, times, mode and attributes. Callers must not read or write its bytes.
    package let backing: BackingFile

    /// The store's inode number.
    package let inode: UInt64
    let ranges: RangeLock
    let state: InPlaceLock<FileState>
    let times: ContentTimes
    let writeBacks = WriteBackOrder()
    let fileKeys: FileKeys
    private let owesRecords = Atomic(false)

    /// - Parameter made: the time of a file that was just made.
    init(
        context: ContentContext, backing: BackingFile, inode: UInt64, keys: FileKeys, state: FileState,
        made: Timestamp? = nil
    ) {
        self.context = context
        times = ContentTimes(context.options, backing, made: made)
        self.backing = backing
        self.inode = inode
        fileKeys = keys
        ranges = RangeLock(context.waitingThreads)
        self.state = InPlaceLock(state)
    }

    /// The layout of the file's pages.
    package var geometry: PageGeometry { context.geometry }
    var snapshot: FileState { state.withLock { $0 } }

    /// The file's size in bytes.
    package var size: UInt64 { state.withLock { $0.size } }
    /// The current header, even while it waits to be written.
    package var header: FileHeader { state.withLock { $0.header } }
    /// The file's version: the higher one of the epochs of its ends.
    package var version: UInt32 { state.withLock { $0.version } }
    /// The file's ID.
    package var fileID: ObjectID { state.withLock { $0.header.fileID } }
    /// The file's class.
    package var protectionClass: ProtectionClass { state.withLock { $0.header.protectionClass } }

    // MARK: Keys

    /// Wipes the file key and all keys derived from it.
    ///
    /// Call it under the exclusive side of the state lock (`KeyRing.finishLocking`), or when no handle is open. Running
    /// operations find no key and are refused, or unwrap it again if the class allows.
    package func wipeKeys() {
        fileKeys.wipe()
    }

    /// Whether late records wait to be written to this file. Until then the content is neither read nor written.
    package var owesLateRecords: Bool { owesRecords.load(ordering: .acquiring) }

    /// Notes whether late records wait to be written to this file.
    package func setOwesLateRecords(_ owes: Bool) { owesRecords.store(owes, ordering: .releasing) }

    /// Whether the file can be opened in `states`.
    func mayBeOpened(in states: VolumeStates) -> Bool {
        let protectionClass = protectionClass
        return Access.isAllowed(.open, class: protectionClass, state: states[protectionClass])
    }

    /// Whether the file's key is in memory.
    package var hasKey: Bool { fileKeys.isPresent }

    /// Refuses an operation that the class does not allow. Unwraps the file key if it is not in memory. Call it inside
    /// `KeyRing.withState`.
    package func judge(_ keys: borrowing HeldKeys, _ operation: Operation) throws(VolumeError) {
        let header = header
        guard Access.isAllowed(operation, class: header.protectionClass, state: keys.state(of: header.protectionClass))
        else {
            throw .locked(header.protectionClass)
        }
        if owesLateRecords, operation != .replay, operation != .other { throw .damaged(.late) }
        if !fileKeys.isPresent { fileKeys.install(try Self.unwrap(keys, header, context.keys.volumeID)) }
    }

    /// Runs `body` in one hold of the state lock, after `access` was allowed and the file's key is in memory.
    @inline(__always)
    func withKeys<Result>(
        _ access: Operation, _ body: (borrowing HeldKeys) throws(VolumeError) -> Result
    ) throws(VolumeError) -> Result {
        do throws(VolumeError) {
            return try context.keys.withState { (keys: borrowing HeldKeys) throws(VolumeError) in
                try judge(keys, access)
                return try body(keys)
            }
        } catch { throw told(error) }
    }

    /// Reports an object that a newer version has made, and returns the error to throw.
    func told(_ error: VolumeError) -> VolumeError {
        if case .newer(let object) = error { context.reportNewer(object, inode) }
        return error
    }

    /// Refuses to change a file whose header has a flag of a newer version that only allows reading.
    package func requireChangeable() throws(VolumeError) {
        if header.flags.areReadableOnly { throw told(.newer(.header)) }
    }

    /// The same with its own hold of the state lock, for operations that use no key.
    func judge(_ operation: Operation) throws(VolumeError) {
        try context.keys.withState { (keys: borrowing HeldKeys) throws(VolumeError) in
            try judge(keys, operation)
        }
    }

    static func unwrap(
        _ keys: borrowing HeldKeys, _ header: FileHeader, _ volume: VolumeID
    ) throws(VolumeError) -> SecretKey {
        let data = AssociatedData.wrap(volume: volume, header: header)
        do throws(KeyError) {
            return try keys.unwrap(
                header.wrappedKey.span, for: header.protectionClass, generation: header.keyGeneration,
                associatedData: data.span)
        } catch { throw VolumeError(error) }
    }

    static func wrap(
        _ keys: borrowing HeldKeys, _ key: borrowing SecretKey, into header: inout FileHeader, _ volume: VolumeID,
        nonce: InlineArray<24, UInt8> = randomInlineBytes()
    ) throws(VolumeError) {
        header.keyGeneration = keys.generation(of: header.protectionClass)
        let data = AssociatedData.wrap(volume: volume, header: header)
        do throws(KeyError) {
            header.wrappedKey = try keys.wrap(
                key, for: header.protectionClass, associatedData: data.span, nonce: nonce)
        } catch { throw VolumeError(error) }
    }

    /// Checks after a wipe that the backing file is still the one whose keys are unwrapped again.
    func checkIdentity() throws(VolumeError) {
        guard fileKeys.wasWiped else { return }
        let now = snapshot
        if now.pageZero == .written {
            var bytes = InlineArray<32, UInt8>(repeating: 0)
            var raw = bytes.mutableSpan
            let count = try store { () throws(Errno) in try backing.read(into: &raw, at: 0) }
            guard count == 32, ObjectID(bytes.span, at: 16) == now.header.fileID else { throw .stale }
        }
        fileKeys.forgetWipe()
    }

    // MARK: Times

    /// Whether the backing file's time is known to have no mark.
    package var isUnmarked: Bool { times.isUnmarked }

    /// Whether the daemon has marked the backing file's time since this was asked last.
    package func takeMark() -> Bool { times.takeMark() }

    /// Runs `body`, which sets the backing file's modification time and returns its status then, and remembers the time.
    package func settingTime(_ body: () throws(VolumeError) -> Status) throws(VolumeError) -> Status {
        try times.settingTime(body)
    }

    /// Remembers the modification time, which the backing file has.
    package func pinModificationTime(_ time: Timestamp) { times.pin(time) }

    /// Makes backups see that the file has changed since `former`, and shows `time` to programs.
    package func renewTime(showing time: Timestamp, after former: Timestamp) throws(Errno) {
        try times.renew(showing: time, after: former)
    }

    /// Called when the file was opened, with its status then.
    package func noteAccessTime(_ status: Status) { times.noteAccessTime(status) }

    /// Called after a program has read. Returns whether the access time may have moved.
    @discardableResult
    package func noteAccess() -> Bool { times.noteAccess() }

    /// Called after a change of the file, of its names or attributes: the next read moves the access time.
    package func forgetAccessLook() { times.forgetAccessLook() }

    // MARK: Small helpers

    /// The epoch to seal `block` under. It is the mount's `epoch`, except for page 0 while the middle waits to be
    /// mended: page 0 then keeps an epoch that ended badly. So crash damage in the middle stays tolerated, whatever
    /// happens to this mount.
    func epoch(for block: UInt64, _ epoch: UInt32, in now: FileState) -> UInt32 {
        block == 0 ? now.recovery.unmended?.epoch ?? epoch : epoch
    }

    /// Turns an errno of the backing store into a `VolumeError`.
    func store<Result>(_ body: () throws(Errno) -> Result) throws(VolumeError) -> Result {
        do throws(Errno) { return try body() } catch { throw .store(error) }
    }

    /// Reports crash evidence to the volume.
    func reportEvidence(_ kind: CrashEvidence.Kind, page: UInt64, in state: FileState? = nil) {
        context.report(
            CrashEvidence(kind: kind, page: page, fileID: state?.header.fileID ?? fileID, inode: inode))
    }

    /// The block that holds the last byte; 0 for an empty file.
    func lastBlock(size: UInt64) -> UInt64 { geometry.pages(size: size).count - 1 }

    /// Cuts the file to `size`. Cuts to whole pages first and adds the tail then, so that no bytes of a dropped page
    /// stay after the end.
    func cut(toSize size: UInt64) throws(VolumeError) {
        let (pages, tail) = geometry.pages(size: size)
        let base = PageGeometry.offset(ofPage: pages)
        try store { () throws(Errno) in
            try backing.truncate(to: base)
            if tail > 0 { try backing.truncate(to: base + UInt64(tail)) }
            if context.cutNeedsSync { try backing.synchronize(dataOnly: true) }
        }
    }

    /// Checks the content of a page of an existing file. True for zeros that are allowed there.
    func accept(_ content: PageContent, block: UInt64, in now: FileState) throws(VolumeError) -> Bool {
        let last = lastBlock(size: now.size)
        switch content {
        case .zeros:
            if now.recovery.isTolerant {
                if !now.header.flags.contains(.holes) { reportEvidence(.zeroPage, page: block) }
                return true
            }
            guard now.header.flags.contains(.holes), block != last, block != 0 else { throw .damaged(.zeroPage) }
            return true
        case .block(let field):
            if block < last {
                guard field.isLast else { return false }
                guard now.recovery.isTolerant else { throw .damaged(.length) }
                reportEvidence(.lastInMiddle, page: block)
                return false
            }
            let length = now.size - geometry.start(ofBlock: block)
            guard now.recovery.isTolerant || (field.isLast && UInt64(field.payloadLength) == length) else {
                throw .damaged(.length)
            }
            return false
        }
    }

    /// A locked buffer for the plaintext of one page.
    func takeScratch() throws(VolumeError) -> LockedBuffer {
        do throws(SodiumError) {
            return try context.scratch.take(atLeast: PageGeometry.pageSize)
        } catch { throw VolumeError(error) }
    }
}
