// Salvages damaged files: copies every readable block to a new file beside the original and leaves the original as it is.

internal import BackingStore
internal import FileContents
internal import KeyFiles
internal import Keybag
internal import HostSystem
internal import ProtectedVolume
internal import SodiumKit
internal import VolumeFormat

extension Check {
    /// The attribute that describes a copy: the original's ID, a checksum and the missing bytes.
    private static var salvageAttribute: [UInt8] { Array("user.salvaged".utf8) }

    /// Handles a file whose header is missing or does not verify.
    func repair(headerOf node: Node, _ place: Place, _ status: Status, _ damage: Damage, _ paths: ObjectPaths) {
        guard repairs, !paths.isKept else { return }
        do throws(VolumeError) {
            if damage == .missingHeader, try writeHeader(node, place) {
                return did(Repair(action: .header, path: paths.visible, backingPath: paths.backing), settling: 1)
            }
            try moveAway(file: status, place, paths, settling: 1)
        } catch {
            if case .locked = error { return }
            found(error, paths)
        }
    }

    /// Makes an empty file of an unfinished creation: an empty backing file, or zeros up to one page.
    private func writeHeader(_ node: Node, _ place: Place) throws(VolumeError) -> Bool {
        let file = try volume.openBacking(node)
        let length = try volume.below { () throws(Errno) in try file.status().size }
        guard length <= UInt64(PageGeometry.pageSize) else { return false }
        var bytes = [UInt8](repeating: 0, count: PageGeometry.pageSize)
        var raw = bytes.mutableSpan
        do throws(Errno) { _ = try file.read(into: &raw, at: 0) } catch { throw .store(error) }
        guard bytes.allSatisfy({ $0 == 0 }) else { return false }
        // No crash explains it, so the file may have had any class. Its next content must not get a weaker one.
        let new = try FileContent.prepare(in: volume.content, class: .complete, explicit: false)
        // As rule R0 requires.
        try volume.below { () throws(Errno) in
            try file.truncate(to: 0)
            try file.synchronize(dataOnly: true)
        }
        let (content, _) = try FileContent.create(new, in: volume.content, backing: file)
        try content.synchronize(dataOnly: true)
        return true
    }

    /// Copies the readable part of a damaged file to a new file beside it, once. Then moves the original away if the
    /// options ask for it.
    func salvage(_ node: Node, _ place: Place, _ status: Status, _ paths: ObjectPaths, errors: Int, areUnread: Bool) {
        do throws(VolumeError) {
            let damaged: FileContent
            do throws(VolumeError) {
                damaged = try FileContent.openDamaged(in: volume.content, backing: try volume.openBacking(node))
            } catch {
                guard case .damaged = error else { throw error }
                // Without its key nothing in it can be read.
                try moveAway(file: status, place, paths, settling: errors)
                return
            }
            defer { damaged.wipeKeys() }
            let plan = try damaged.salvage(into: nil, mayGoOn: mayGoOn)
            // The store can read the file again, so it is not damaged.
            if areUnread, plan.unreadable.isEmpty { return }
            if plan.blocks > 0 { try copy(damaged, plan, node, place, status, paths) }
            // After a read error the original stays, because the disk may read it at another time.
            if !plan.hasReadErrors { try moveAway(file: status, place, paths, settling: errors) }
        } catch {
            switch error {
            case .locked, .store(.EINTR): return
            default: found(error, paths)
            }
        }
    }

    private func copy(
        _ damaged: FileContent, _ plan: Salvage, _ node: Node, _ place: Place, _ status: Status, _ paths: ObjectPaths
    ) throws(VolumeError) {
        let parent = place.parent
        let directory = try volume.directory(parent)
        let name = Self.lastComponent(of: paths.visible)
        let label = Self.label(damaged.fileID, plan)
        for number in 1..<1000 {
            let copyName = Self.name(ofCopy: number, of: name)
            var repair = Repair(
                action: .salvaged, path: paths.visible, backingPath: paths.backing,
                target: Array(paths.visible.dropLast(name.count)) + copyName, unreadable: plan.unreadable)
            let located = try volume.locate(copyName, in: parent, directory)
            if let there = located.status {
                // An earlier run has made this file, or it belongs to someone else.
                guard there.kind == .regular, isCopy(located.name.entry, there, directory, label) else { continue }
                repair.isOld = true
                return did(repair, settling: 0)
            }
            try make(copyName, of: damaged, plan, node, parent, directory, status, label)
            return did(repair, settling: 0) { $0.salvaged += 1 }
        }
        throw .exists
    }

    /// Makes the copy under a temporary name, syncs it, and only then renames it. So a partial copy is never visible.
    private func make(
        _ name: [UInt8], of damaged: FileContent, _ plan: Salvage, _ node: Node, _ parent: Node,
        _ directory: BackingDirectory, _ status: Status, _ label: [UInt8]
    ) throws(VolumeError) {
        let (_, encoded) = try volume.prepare(name.span, in: parent)
        let header = damaged.header
        // A header that block 0 does not prove may have an earlier, weaker class of the same file.
        let new = try FileContent.prepare(
            in: volume.content, class: plan.provesHeader ? header.protectionClass : .complete,
            explicit: plan.provesHeader && header.flags.contains(.explicit))
        let temporary = BackingName.temporary()
        let file = try volume.below { () throws(Errno) in try directory.createFile(temporary, mode: 0o600) }
        do throws(VolumeError) {
            let (content, _) = try FileContent.create(new, in: volume.content, backing: file)
            defer { content.wipeKeys() }
            try content.flushHeader()
            guard try damaged.salvage(into: content, mayGoOn: mayGoOn) == plan else { throw .stale }
            try copyAttributes(of: node, to: file, content.fileID, label)
            try volume.below { () throws(Errno) in
                // An incomplete file gets no set-ID bits.
                try file.setMode(volume.giveOwner(of: status, to: file) & 0o777)
                try file.setTimes(accessed: .keep, modified: .set(status.modified))
            }
            try content.synchronize(dataOnly: false)
            try volume.making(encoded, in: parent, directory) { () throws(VolumeError) in
                try volume.below { () throws(Errno) in
                    try directory.rename(temporary, to: directory, encoded.entry, mode: .noReplace)
                }
            }
            try volume.below { () throws(Errno) in try directory.synchronize() }
        } catch {
            try? directory.unlink(temporary)
            throw error
        }
    }

    private func copyAttributes(
        of node: Node, to file: BackingFile, _ id: ObjectID, _ label: [UInt8]
    ) throws(VolumeError) {
        var all = [(Self.salvageAttribute, label)]
        for name in try volume.listXattr(node) where OwnAttribute(name) == nil && name != Self.salvageAttribute {
            if let value = try? volume.getXattr(node, name) { all.append((name, value)) }
        }
        for (name, value) in all {
            if name.span.hasText("system.") {
                try volume.below { () throws(Errno) in try file.setAttribute(name, value) }
            } else {
                _ = try volume.storedAttributes(file, id).set(name, to: value.span, mode: .set)
            }
        }
    }

    private func isCopy(
        _ entry: EntryName, _ status: Status, _ directory: BackingDirectory, _ label: [UInt8]
    ) -> Bool {
        guard let header = (try? volume.header(of: entry, status, in: directory)) ?? nil,
            let object = try? directory.node(entry)
        else { return false }
        return volume.storedAttributes(object, header.fileID).value(of: Self.salvageAttribute) == label
    }

    /// The text in a copy's attribute: the original's ID and the missing bytes, as far as an attribute has room.
    private static func label(_ id: ObjectID, _ plan: Salvage) -> [UInt8] {
        let stretches = plan.unreadable.map { "\($0.lowerBound)-\($0.upperBound - 1)" }.joined(separator: ",")
        let all = Array("\(plan.size) \(stretches)".utf8)
        let sum = hash256(id.bytes.span, all.span)
        let shown = stretches.utf8.count <= 1500 ? stretches : String(stretches.prefix(1500)) + "…"
        let mark = Base64URL.encode(sum.span.extracting(0..<12))
        return Array("unreadable bytes: \(shown.isEmpty ? "none known" : shown); of ".utf8) + mark
    }

    private static func lastComponent(of path: [UInt8]) -> [UInt8] {
        Array(path[(path.lastIndex(of: UInt8(ascii: "/")).map { $0 + 1 } ?? 0)...])
    }

    /// `name.salvaged`, `name.salvaged.2` …, with the name cut between characters if it is too long.
    static func name(ofCopy number: Int, of name: [UInt8]) -> [UInt8] {
        let suffix = Array((number == 1 ? ".salvaged" : ".salvaged.\(number)").utf8)
        var base = name[...]
        while base.count + suffix.count > NameLimits.longest, let last = base.popLast() {
            // Removes all bytes of a character together with its last one.
            if last & 0xC0 == 0x80 { while let more = base.popLast(), more & 0xC0 == 0x80 {} }
        }
        return Array(base) + suffix
    }
}
