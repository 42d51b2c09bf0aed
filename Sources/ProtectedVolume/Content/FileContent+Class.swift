// Changing a file's class, and its key.

package import BackingStore
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
    package func changeClass(
        to target: ProtectionClass, explicit: Bool, clearingExposure: Bool = false, isDurable: Bool = true
    ) throws(VolumeError) {
        try requireChangeable()
        if target == protectionClass { return try setExplicit(explicit) }
        try prepareToModify(.other)
        try holding(0..<1, exclusive: true) { () throws(VolumeError) in
            let now = snapshot
            let tightens = ClassChange.isTightening(from: now.header.protectionClass, to: target)
            let isRenewed = tightens && now.size == 0
            try wrapAgain(for: target, newKey: isRenewed, durably: tightens && isDurable) { header in
                if explicit { header.flags.insert(.explicit) }
                if clearingExposure { header.flags.remove(.keyExposed) }
                if tightens, !isRenewed, now.pageZero == .written { header.flags.insert(.keyExposed) }
            }
        }
    }

    /// Gives the file class `target` and a new key if it is empty, in one write of page 0, which is durable when this returns.
    /// Clears KEY_EXPOSED. False, and nothing is changed, if the file is not empty.
    package func renewIfEmpty(class target: ProtectionClass, explicit: Bool) throws(VolumeError) -> Bool {
        guard snapshot.size == 0 else { return false }
        try prepareToModify(.other)
        return try holding(0..<1, exclusive: true) { () throws(VolumeError) in
            guard snapshot.size == 0 else { return false }
            try wrapAgain(for: target, newKey: true, durably: true) { header in
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
    private func wrapAgain(
        for target: ProtectionClass, newKey: Bool, durably: Bool, _ change: (inout FileHeader) -> Void
    ) throws(VolumeError) {
        let newKeys = newKey ? FileKeys(try Self.randomKey(), suite: geometry.suite) : nil
        try preservingTime { () throws(VolumeError) in
            try rewriteHeader(.other, newKeys: newKeys) {
                (keys: borrowing HeldKeys, header: inout FileHeader) throws(VolumeError) in
                guard ClassChange.isAllowed(from: header.protectionClass, to: target, state: keys.state) else {
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
        // If a lock came before the write of page 0, it has treated this file as one of the old class.
        defer { if target == .complete { context.keys.wipeIfLocked { fileKeys.wipe() } } }
        if target == .complete { context.keys.wipeIfLocked { fileKeys.wipe() } }
        // Class and key are in page 0. Times, which a sync of data leaves out, are not changed.
        if newKey || durably { try synchronizeBacking(dataOnly: true) }
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
                try preservingTime { () throws(VolumeError) in
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
    /// The copy may lack data that is written meanwhile. The caller checks for such writes and starts again. Throws
    /// `.refused(.EBUSY)` if the size has changed.
    /// - Parameter progress: gets the number of bytes done. If it returns false, the copy ends with `.refused(.EINTR)`.
    package func reencrypt(
        into target: BackingFile, class protectionClass: ProtectionClass, explicit: Bool,
        progress: (UInt64) -> Bool = { _ in true }
    ) throws(VolumeError) {
        guard !context.isReadOnly else { throw .readOnly }
        try requireChangeable()
        try checkIdentity()
        try flushHeader()
        let seen = snapshot
        let last = lastBlock(size: seen.size)
        var flags = seen.header.flags.intersection([.holes, .explicit, .kept])
        if explicit { flags.insert(.explicit) }
        // As in mending, the running time must not depend on how much the store has lost.
        if seen.recovery.isTolerant, holes(below: last) > context.mostSealedHoles { flags.insert(.holes) }
        let file = try Self.newFile(
            in: context, class: protectionClass, flags: flags, fileID: seen.header.fileID, .create)
        let header = file.header
        let keys = FileKeys(file.takeKey(), suite: header.suite)
        guard let length = geometry.backingLength(size: seen.size) else { throw .damaged(.length) }
        let status = try store { () throws(Errno) in
            try target.truncate(to: length)
            return try target.status()
        }
        try context.epochs.changed.made(status)
        var block: UInt64 = 0
        var unsynced: UInt64 = 0
        while block <= last {
            let end = min(block + 64, last + 1)
            // Each step has its own hold: a writer waits for one step only, and readers do not wait for the writer.
            try holding(block..<end, exclusive: false) { () throws(VolumeError) in
                let now = snapshot
                guard now.size == seen.size else { throw .refused(.EBUSY) }
                try reencryptStep(block..<end, now, header, keys, into: target)
            }
            // Syncs in parts, because a long sync cannot be interrupted.
            unsynced += end - block
            if unsynced >= Self.syncedAtOnce {
                try store { () throws(Errno) in try target.synchronize(dataOnly: true) }
                unsynced = 0
            }
            // Pages that the store holds no data for stay holes, if the file may have holes.
            block = flags.contains(.holes) && end < last ? nextDataBlock(from: end, below: last) : end
            guard progress(min(geometry.start(ofBlock: block), seen.size)) else { throw .refused(.EINTR) }
        }
    }

    /// The number of pages of the copy that one sync makes durable.
    private static var syncedAtOnce: UInt64 { 16_384 }

    private func reencryptStep(
        _ blocks: Range<UInt64>, _ now: FileState, _ header: FileHeader, _ newKeys: FileKeys, into target: BackingFile
    ) throws(VolumeError) {
        let count = Int(blocks.count)
        let last = lastBlock(size: now.size)
        // The new file is complete, so no part of it waits to be mended.
        var whole = now
        whole.recovery.unmended = nil
        var holes: [Int] = []
        var pages = PageRewriter(self, whole, pageCount: count)
        try pages.read(blocks)
        try pages.withKeys(.read, encryptions: count) {
            (keys: borrowing HeldKeys, plain: inout MutableSpan<UInt8>, pages: inout PageRewriter) throws(VolumeError)
            in
            guard Access.isAllowed(.create, class: header.protectionClass, state: keys.state) else {
                throw .locked(header.protectionClass)
            }
            var old = pages.codec()
            var new = PageCodec(geometry: geometry, keys: newKeys, header: header)
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
    }
}
