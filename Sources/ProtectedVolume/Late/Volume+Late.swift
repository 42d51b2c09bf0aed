// Late records as a mount sees them: before a lock, while locked, at an unlock.

public import BackingStore
public import Keybag
internal import Locks
public import VolumeFormat

extension Volume {
    /// Begins the log of a lock that is under way, so that no write is lost from the moment on in which the keys go.
    /// - Throws: `.locked` where the keys are gone already; `.store(.ENOMEM)`.
    public func beginLateRecords() throws(VolumeError) { try late.begin() }

    /// Takes a write from the page cache that found its keys gone: seals it as a late record, or, where an unlock has come,
    /// writes it. Durable after `synchronize`; in the store after `persistLateRecords`.
    public func writeLate(_ data: RawSpan, at offset: UInt64, to content: FileContent) throws(VolumeError) {
        // No unlock could put it in.
        let (end, overflow) = offset.addingReportingOverflow(UInt64(data.byteCount))
        guard !overflow, end <= self.content.geometry.maximumSize else { throw .refused(.EFBIG) }
        while true {
            if let log = late.current {
                if try log.append(data, to: content.fileID, at: offset, keys) { return }
                // An unlock is putting the records in: a moment, and the write is an ordinary one.
                keys.waitWhileOpening()
            }
            do throws(VolumeError) {
                return try content.write(data, at: offset, access: .writeBack)
            } catch {
                guard case .locked = error, late.current != nil || keys.isOpening else { throw error }
            }
        }
    }

    /// Writes late records that wait in memory to the store. Quick where there are none.
    public func persistLateRecords() throws(VolumeError) {
        if let log = late.current, log.hasUnwritten { try log.persist() }
    }

    /// Late records of the lock in force.
    public var lateRecordCount: Int { late.current?.count ?? 0 }

    func synchronizeLateRecords() throws(VolumeError) {
        if let log = late.current, log.count > 0 { try log.synchronize() }
    }

    /// What a state file that is made anew lists: every late file there is, as nobody knows which of them were used.
    public static func openLocks(in root: BackingDirectory) -> [StateFileLayout.OpenLock] {
        LateRecords.numbers(in: root).suffix(StateFileLayout.maximumLocks).map { .init(number: $0) }
    }

    /// Takes keys in. Late records go into the files that are open before anything else is granted, and into others before
    /// they are opened.
    public func unlock(with given: consuming VolumeKeys) throws(KeyError) -> UnlockOutcome {
        try keys.unlock(with: given) { takeLateRecords() }
    }

    /// With the keys in memory, and before anything is open.
    func takeLateRecords() {
        if options.isReadOnly {
            for (number, _) in (try? late.listed()) ?? [] { report(.late(number: number, .waits)) }
        } else {
            late.unlock { opened.withLock { Array($0.values) }.compactMap { content(of: $0) } }
        }
    }
}
