// Changing a file's class, and its key.

package import BackingStore
package import KeyFiles
internal import Keybag
internal import HostSystem
internal import SodiumKit
package import VolumeFormat

extension FileContent {
    /// Gives the file class `target`, in one write of page 0.
    ///
    /// Tightening leaves the old file key in use, so it sets KEY_EXPOSED and is durable when it returns; an empty file
    /// gets a new key instead. If the file has the class already, this sets EXPLICIT if the file key is available.
    /// - Parameters:
    ///   - explicit: sets EXPLICIT; otherwise the flag stays as it is.
    ///   - clearingExposure: clears KEY_EXPOSED, to undo a change by this mount that set it.
    ///   - isDurable: false if the caller is about to replace the file by one that is durable.
    ///   - isNameless: the file has no name, so nothing of it is left after a crash. Then nothing is synced; `settleClass`
    ///     does it before the file gets a name.
    package func changeClass(
        to target: ProtectionClass, explicit: Bool, clearingExposure: Bool = false, isDurable: Bool = true,
        isNameless: Bool = false
    ) throws(VolumeError) {
        try requireChangeable()
        if target == protectionClass { return try setExplicit(explicit) }
        try prepareToModify(.other)
        try holding(0..<1, exclusive: true) { () throws(VolumeError) in
            try changeClassHeld(
                to: target, explicit: explicit, clearingExposure: clearingExposure, isDurable: isDurable,
                isNameless: isNameless)
        }
    }

    /// The same. The caller holds page 0 exclusively.
    func changeClassHeld(
        to target: ProtectionClass, explicit: Bool, clearingExposure: Bool = false, isDurable: Bool = true,
        isNameless: Bool = false
    ) throws(VolumeError) {
        let now = snapshot
        let tightens = ClassChange.isTightening(from: now.header.protectionClass, to: target)
        let isRenewed = tightens && now.size == 0
        try wrapAgain(
            for: target, newKey: isRenewed, durably: tightens && isDurable, isNameless: isNameless
        ) { header in
            if explicit { header.flags.insert(.explicit) }
            if clearingExposure { header.flags.remove(.keyExposed) }
            if tightens, !isRenewed, now.pageZero == .written { header.flags.insert(.keyExposed) }
        }
    }

    /// Gives the file class `target` and a new key if it is empty, in one write of page 0, which is durable when this returns.
    /// Clears KEY_EXPOSED. False, and nothing is changed, if the file is not empty. Nil keeps the class.
    package func renewIfEmpty(class target: ProtectionClass?, explicit: Bool) throws(VolumeError) -> Bool {
        guard snapshot.size == 0 else { return false }
        try prepareToModify(.other)
        return try holding(0..<1, exclusive: true) { () throws(VolumeError) in
            let now = snapshot
            guard now.size == 0 else { return false }
            try wrapAgain(for: target ?? now.header.protectionClass, newKey: true, durably: true) { header in
                if explicit { header.flags.insert(.explicit) }
                header.flags.remove(.keyExposed)
            }
            return true
        }
    }

    /// Rewrites page 0 with class `target`, the file key or a new one wrapped for it, and the changed flags. The caller holds
    /// page 0 exclusively.
    ///
    /// - Parameters:
    ///   - newKey: only for an empty file. The new key is durable before anything else is written.
    ///   - durably: whether the file is synced in any case.
    ///   - isNameless: the sync waits until the file gets a name.
    private func wrapAgain(
        for target: ProtectionClass, newKey: Bool, durably: Bool, isNameless: Bool = false,
        _ change: (inout FileHeader) -> Void
    ) throws(VolumeError) {
        let newKeys = newKey ? FileKeys(try Self.randomKey(), suite: geometry.suite) : nil
        let before = header
        // No backup can have the file while its page 0 waits, or while it has no name.
        let isNews = !isNameless && snapshot.pageZero == .written
        try context.keys.storing { () throws(VolumeError) -> Void in
            try times.preserving(isNews: isNews) { () throws(VolumeError) in
                try rewriteHeader(.other, newKeys: newKeys) {
                    (keys: borrowing HeldKeys, header: inout FileHeader) throws(VolumeError) in
                    guard ClassChange.isAllowed(from: header.protectionClass, to: target, states: keys.states) else {
                        throw .locked(target)
                    }
                    var wrapped = header
                    wrapped.protectionClass = target
                    change(&wrapped)
                    _ = try (newKeys ?? fileKeys).withKey { (key: borrowing SecretKey) throws(VolumeError) in
                        try Self.wrap(keys, key, into: &wrapped, context.keys.volumeID)
                    }
                    header = wrapped
                }
                if let key = newKeys?.takeKey() { fileKeys.install(key, replacing: true) }
            }
        }
        // If a lock came before the write of page 0, it has treated this file as one of the old class.
        func wipeIfLocked() {
            guard target.cutsOffHandles else { return }
            context.keys.wipeIfLocked(target) {
                fileKeys.wipe()
                context.looseKeys.wipe(closing: target)
            }
        }
        defer { wipeIfLocked() }
        wipeIfLocked()
        // Class and key are in page 0. The time is news too, which a sync of data leaves out.
        // A former class key leaves the keybag when no header names it, so the new header must be durable.
        let isFormer = context.keys.formerKeys.contains(
            FormerKey(number: before.protectionClass.rawValue, generation: before.keyGeneration))
        guard newKey || durably || isFormer else { return }
        if isNameless {
            state.withLock { $0.owesClass() }
        } else {
            try synchronizeBacking(dataOnly: !isNews)
        }
    }

    /// Makes the class durable that the file was given while it had no name. Called before it gets one.
    package func settleClass() throws(VolumeError) {
        if snapshot.durability.owesClass { try synchronizeBacking(dataOnly: true) }
    }

    private func setExplicit(_ explicit: Bool) throws(VolumeError) {
        guard explicit, !header.flags.contains(.explicit) else { return }
        try rewriteFlags { $0.insert(.explicit) }
    }

    /// Clears EXPLICIT if the file key is available. The class does not change.
    package func removeExplicit() throws(VolumeError) {
        guard header.flags.contains(.explicit) else { return }
        try rewriteFlags { $0.remove(.explicit) }
    }

    private func rewriteFlags(_ change: (inout FileFlags) -> Void) throws(VolumeError) {
        do throws(VolumeError) {
            try prepareToModify(.other)
            try holding(0..<1, exclusive: true) { () throws(VolumeError) -> Void in
                try times.preserving(isNews: true) { () throws(VolumeError) in
                    try rewriteHeader(.other) { (_, header) in change(&header.flags) }
                }
            }
        } catch {
            // Without the key the flags stay as they are. That is not an error.
            if case .locked = error { return }
            throw error
        }
    }

    /// Writes the whole content into `backing` under a new key and class `target`. `backing` is a new, empty file,
    /// which the caller then syncs and renames over the old one. The file ID stays the same, and KEY_EXPOSED is cleared.
    ///
    /// The copy may lack data that this machine writes meanwhile. The caller checks for such writes and starts again. Throws
    /// `.refused(.EBUSY)` if the size has changed, or if another machine has changed the file. A lock that closes the class of the
    /// file or of the copy wipes the copy's key at once, and the copy then ends with `.locked`, also after an unlock.
    /// - Parameter progress: is called after each step. If it returns false, the copy ends with `.refused(.EINTR)`.
    /// - Returns: the moment of which this is the copy, if other machines may write the file.
    @discardableResult
    package func reencrypt(
        into target: BackingFile, class protectionClass: ProtectionClass, explicit: Bool,
        progress: (CopyProgress) -> Bool = { _ in true }
    ) throws(VolumeError) -> FileMoment? {
        guard !context.isReadOnly else { throw .readOnly }
        try requireChangeable()
        try checkIdentity()
        try flushHeader()
        var moment: FileMoment?
        if context.isShared {
            // What mends the file for the change of class must come before the copy.
            if ClassChange.isTightening(from: self.protectionClass, to: protectionClass) { try prepareToModify(.other) }
            moment = try holdingStore(exclusive: false) { () throws(VolumeError) in try self.moment(target) }
        }
        let seen = snapshot
        let last = lastBlock(size: seen.size)
        var flags = seen.header.flags.intersection([.holes, .explicit, .kept])
        if explicit { flags.insert(.explicit) }
        // As in mending, the running time must not depend on how much the store has lost.
        if seen.recovery.isTolerant, backing.holes(below: last, most: context.mostSealedHoles) > context.mostSealedHoles
        {
            flags.insert(.holes)
        }
        let copy = FileCopy(
            of: self,
            try Self.newFile(
                in: context, class: protectionClass, flags: flags, fileID: seen.header.fileID, .create))
        context.looseKeys.begin(copy)
        defer { context.looseKeys.end(copy) }
        // A lock in between has not found the copy.
        try context.keys.withState { (keys: borrowing HeldKeys) throws(VolumeError) in
            if let closed = copy.closedClass(in: keys.states) { throw .locked(closed) }
        }
        guard let length = geometry.backingLength(size: seen.size) else { throw .damaged(.length) }
        let status = try store { () throws(Errno) in
            try target.truncate(to: length)
            return try target.status()
        }
        try context.epochs.changed.made(status)
        var block: UInt64 = 0
        var written: UInt64 = 0
        var unsynced: UInt64 = 0
        while block <= last {
            let end = min(block + 64, last + 1)
            // Each step has its own hold: a writer waits for one step only, and readers do not wait for the writer.
            try holdingCopied(block..<end, since: moment) { () throws(VolumeError) in
                let now = snapshot
                guard now.size == seen.size else { throw .refused(.EBUSY) }
                written += UInt64(try reencryptStep(block..<end, now, copy, into: target))
            }
            // Syncs in parts, because a long sync cannot be interrupted.
            unsynced += end - block
            if unsynced >= Self.syncedAtOnce {
                try store { () throws(Errno) in try target.synchronize(dataOnly: true) }
                unsynced = 0
            }
            // Pages that the store holds no data for stay holes, if the file may have holes.
            block = flags.contains(.holes) && end < last ? backing.nextDataBlock(from: end, below: last) : end
            let now = CopyProgress(
                done: min(geometry.start(ofBlock: block), seen.size), written: PageGeometry.offset(ofPage: written),
                keys: copy.keys)
            guard progress(now) else { throw .refused(.EINTR) }
        }
        return moment
    }

    /// The number of pages of the copy that one sync makes durable.
    private static var syncedAtOnce: UInt64 { 16_384 }

    /// - Returns: the number of pages written.
    private func reencryptStep(
        _ blocks: Range<UInt64>, _ now: FileState, _ copy: FileCopy, into target: BackingFile
    ) throws(VolumeError) -> Int {
        let header = copy.header
        let count = Int(blocks.count)
        let last = lastBlock(size: now.size)
        // The new file is complete, so no part of it waits to be mended.
        let whole = now.leaving(nil)
        var holes: [Int] = []
        var pages = PageRewriter(self, whole, pageCount: count)
        try pages.read(blocks)
        // Not a read: a file that nothing has open is closed by a lock, and its copy ends then.
        try pages.withKeys(.open, encryptions: count) {
            (keys: borrowing HeldKeys, plain: inout MutableSpan<UInt8>, pages: inout PageRewriter) throws(VolumeError)
            in
            if let closed = copy.closedClass(in: keys.states) { throw .locked(closed) }
            var old = pages.codec()
            var new = PageCodec(geometry: geometry, keys: copy.keys, header: header)
            for (position, block) in blocks.enumerated() {
                let length = geometry.payloadLength(ofBlock: block, size: now.size)
                let isZero = try pages.open(position, block: block, &old, into: &plain, keeping: length)
                if isZero, header.flags.contains(.holes), block != 0, block != last {
                    holes.append(position)
                } else {
                    try pages.seal(plain.span, at: position, block: block, size: now.size, &new)
                }
            }
        }
        // Writes each run between holes with one write.
        var from = 0
        for hole in holes + [count] {
            if hole > from { try pages.write(from..<hole, to: target, at: blocks.lowerBound + UInt64(from)) }
            from = hole + 1
        }
        return count - holes.count
    }
}
