// Checks files: the header, every block and every attribute. Repairs what a crash has left unfinished.

internal import BackingStore
internal import FileContents
internal import KeyFiles
internal import Keybag
internal import HostSystem
internal import ProtectedVolume
internal import SodiumKit
internal import VolumeFormat

extension Check {
    /// What the check of one file's content has found.
    private struct Outcome {
        /// The number of errors reported.
        var errors = 0
        /// The number of errors that are read errors of the store.
        var unread = 0
        /// Whether the content could not be read, mended or synced for another reason.
        var hasFailed = false
        /// Whether a newer version has made a part of the file. Only that version can mend or salvage it.
        var isNewer = false
    }

    /// Checks one file; a hard-linked file once.
    /// - Parameter isRead: whether an interrupted check has read its blocks, and nothing has changed since.
    func look(atFile node: Node, _ place: Place, _ status: Status, _ paths: ObjectPaths, isRead: Bool) {
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
            volume.forgetTrueSize(of: node)
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
            return repair(headerOf: node, place, status, damage, paths)
        }
        do throws(VolumeError) {
            try volume.withContent(node, writable: mends && !paths.isKept) { (content) throws(VolumeError) in
                if isRead, !hasEvidence(content.inode) {
                    count(readBefore: content.size)
                } else {
                    try checkContent(content, paths, &advanced, &outcome)
                }
            }
        } catch {
            switch error {
            case .locked(let protectionClass): skip(protectionClass)
            // The late file is reported itself.
            case .newer(.late): skip(node.protectionClass ?? .complete)
            case .newer:
                found(error, paths)
                outcome.isNewer = true
            default:
                found(error, paths)
                outcome.hasFailed = true
                if Self.isOfContent(error) { outcome.errors = 1 }
                if case .store = error { outcome.unread = 1 }
            }
        }
        if state.withLock({ $0.older.remove(node.inode) }) != nil { found(.older, .note, paths) }
        if outcome.errors > 0 || outcome.hasFailed || outcome.isNewer || hasEvidence(node.inode) {
            recorder?.note(findingIn: status.inode)
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
        let reading = ContentReading(content, behind: paths)
        if reading.isLong { ask(toHelp: reading) }
        reading.read(for: self)
        let found = reading.finish()
        advanced = found.advanced
        report(found.places, paths, &outcome)
        if let failure = found.failure { throw failure }
        guard mends, !paths.isKept, outcome.errors == 0, !outcome.isNewer, content.needsRepair else { return }
        if found.isWhole, !content.isUnmended, !hasEvidence(content.inode) {
            // It only might have been damaged. It reads the same once its epoch is closed, so only what was read must be durable.
            // On a store that keeps order the end of the check syncs all of it.
            if volume.content.cutNeedsSync { try content.synchronize(dataOnly: false) }
            return
        }
        // An interrupted check has not read all of the file, so it knows of nothing to repair.
        guard mayGoOn() else { return }
        try content.repair()
        did(Repair(action: .mended, path: paths.visible, backingPath: paths.backing), settling: 0) { $0.mended += 1 }
    }

    /// Whether the file that is being checked shows traces of a crash.
    private func hasEvidence(_ inode: UInt64) -> Bool {
        state.withLock { $0.evidence[inode]?.isEmpty == false }
    }

    /// Reports blocks that do not verify, in order.
    private func report(_ places: [ContentReading.Place], _ paths: ObjectPaths, _ outcome: inout Outcome) {
        for place in places {
            if case .newer = place.error {
                // One of them is enough, because all of the file is left alone.
                if !outcome.isNewer { found(place.error, paths, page: place.block) }
                outcome.isNewer = true
            } else if outcome.errors < ContentReading.mostBlocks {
                outcome.errors += 1
                found(place.error, paths, page: place.block)
                if case .store = place.error { outcome.unread += 1 }
            }
        }
    }

    /// Whether an error means damage of some bytes, so that others of the file can be read.
    static func isOfContent(_ error: VolumeError) -> Bool {
        switch error {
        case .damaged, .store(.EIO): true
        default: false
        }
    }

    /// Reports the crash evidence of one file. Returns the number of errors among it.
    ///
    /// - Parameter isNewer: nothing is reported, because what departs from this version's rules may follow a newer one's.
    private func tellCrashEvidence(of node: Node, _ paths: ObjectPaths, isNewer: Bool) -> Int {
        var errors = 0
        let evidence = state.withLock { $0.evidence.removeValue(forKey: node.inode) ?? [] }
        if isNewer { return 0 }
        for one in Set(evidence).sorted(by: { ($0.page, $0.kind.rawValue) < ($1.page, $1.kind.rawValue) }) {
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
