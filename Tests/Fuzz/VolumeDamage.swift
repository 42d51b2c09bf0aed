// Damages any object of the store without the volume's knowledge, as an input says.

import BackingStore
import HostSystem
@testable import MemoryStore

/// One object of the store.
private struct Place {
    let directory: BackingDirectory
    let entry: EntryName
    let kind: FileKind
    let path: [EntryName]
}

private func collect(_ directory: BackingDirectory, _ path: [EntryName], _ all: inout [Place]) {
    for entry in (try? directory.entries()) ?? [] {
        guard let kind = try? directory.status(of: entry.name).kind else { continue }
        all.append(Place(directory: directory, entry: entry.name, kind: kind, path: path + [entry.name]))
        if kind == .directory, let inner = try? directory.openDirectory(entry.name) {
            collect(inner, path + [entry.name], &all)
        }
    }
}

private func bytes(_ directory: BackingDirectory, _ entry: EntryName) throws(Errno) -> [UInt8] {
    let file = try directory.openFile(entry, .readOnly)
    var all = [UInt8](repeating: 0, count: Int(min(try file.status().size, 1 << 18)))
    var raw = all.mutableSpan
    _ = try file.read(into: &raw, at: 0)
    return all
}

private func replace(_ place: Place, _ new: [UInt8]) throws(Errno) {
    let file = try place.directory.openFile(place.entry, .readWrite)
    try file.truncate(to: UInt64(new.count))
    if !new.isEmpty { try file.write(new.span, at: 0) }
}

extension VolumeDriver {
    /// Changes one object of the store.
    func damage(_ program: inout Program) {
        var all: [Place] = []
        collect(store.root, [], &all)
        guard !all.isEmpty else { return }
        let place = all[program.word() % all.count]
        let other = all[program.word() % all.count]
        isDamaged = true
        // The store's own errors are as good as damage.
        do throws(Errno) {
            let how = program.byte()
            if how & 0xC0 == 0xC0 { return try damageEntry(place, other, how, &program) }
            switch place.kind {
            case .regular: try damageFile(place, other, how, &program)
            case .symlink: try damageLink(place, other, how, &program)
            default: try damageEntry(place, other, how, &program)
            }
        } catch {}
    }

    private func damageFile(_ place: Place, _ other: Place, _ how: Int, _ program: inout Program) throws(Errno) {
        var own = try bytes(place.directory, place.entry)
        let at = own.isEmpty ? 0 : (program.byte() << 16 | program.word()) % own.count
        let page = at / 4096 * 4096..<min(at / 4096 * 4096 + 4096, own.count)
        switch how % 10 {
        case 0 where !own.isEmpty:
            own[at] ^= 1 << UInt8(how >> 4 & 7)
        case 1: own.replaceSubrange(page, with: [UInt8](repeating: 0, count: page.count))
        case 2: own = Array(own[..<at])
        case 3: own += [UInt8](repeating: UInt8(how & 0x40), count: program.word() % 10_000)
        case 4, 5:
            let theirs = try bytes(other.directory, other.entry)
            let from = how % 10 == 4 ? page.lowerBound : program.byte() * 4096
            guard from < theirs.count else { return }
            own.replaceSubrange(page, with: theirs[from..<min(from + 4096, theirs.count)])
        case 6: own = try bytes(other.directory, other.entry)
        case 7, 8:
            guard var directory = olderRoot else { return }
            for entry in place.path.dropLast() { directory = try directory.openDirectory(entry) }
            let former = try bytes(directory, place.entry)
            if how % 10 == 7 {
                own = former
            } else if page.upperBound <= former.count {
                own.replaceSubrange(page, with: former[page])
            }
        default:
            let object = try place.directory.node(place.entry)
            for name in try object.attributeNames() {
                var value = try object.attribute(name)
                if how & 0x10 == 0 {
                    try other.directory.node(other.entry).setAttribute(name, value)
                } else if !value.isEmpty {
                    value[at % value.count] ^= 1
                    try object.setAttribute(name, value)
                }
            }
            return
        }
        try replace(place, own)
    }

    private func damageLink(_ place: Place, _ other: Place, _ how: Int, _ program: inout Program) throws(Errno) {
        var target = try place.directory.readSymlink(place.entry)
        let at = program.byte() % max(target.count, 1)
        switch how % 5 {
        case 0 where !target.isEmpty: target[at] = target[at] == 0x41 ? 0x42 : 0x41
        case 1 where target.count > 1: target.removeLast(1 + at % (target.count - 1))
        case 2: target += Array("AAAA".utf8)
        case 3: target = try other.directory.readSymlink(other.entry)
        default: target = Array("/etc/passwd".utf8)
        }
        try place.directory.unlink(place.entry)
        try place.directory.createSymlink(place.entry, target: target)
    }

    private func damageEntry(_ place: Place, _ other: Place, _ how: Int, _ program: inout Program) throws(Errno) {
        switch how % 7 {
        case 0:
            if place.kind == .directory { return }
            try place.directory.unlink(place.entry)
        case 1: try place.directory.rename(place.entry, to: other.directory, place.entry)
        case 2: try place.directory.rename(place.entry, to: other.directory, other.entry, mode: .exchange)
        case 3:
            var name = Array(place.entry.bytes)
            let at = program.byte() % name.count
            name[at] = name[at] == 0x41 ? 0x42 : 0x41
            guard let new = EntryName(name) else { return }
            try place.directory.rename(place.entry, to: place.directory, new)
        case 4: try place.directory.link(place.entry, to: other.directory, place.entry)
        case 5:
            // A copy under a name of no form that the format writes.
            guard let new = EntryName("conflict \(program.byte())") else { return }
            try place.directory.link(place.entry, to: place.directory, new)
        default:
            if place.kind == .directory { return }
            try place.directory.unlink(place.entry)
            try place.directory.createSpecial(place.entry, mode: 0o010600, device: 0)
        }
    }
}
