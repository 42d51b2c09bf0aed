// Companions of long names: an input is the target of a companion, whose entry is the one that belongs to it, or another.

import BackingStore
import FileContents
@testable import MemoryStore
import KeyFiles
import Keybag
import VolumeFormat

@testable import ProtectedVolume

/// A volume in memory, whose root holds nothing but the entry and its companion.
private let ring = fixedRing()
private let names = NameCipher(keys: ring.metadata)

private func volume(_ store: MemoryStore) -> Volume {
    do {
        try NewVolume.writeRootRecord(in: store.root, keys: ring.metadata)
        return try Volume(
            directory: store.root, keys: ring, epochs: EpochLog(endedBadly: [], tolerance: .nothing, record: .none()),
            options: VolumeOptions())
    } catch {
        fatalError("no volume: \(error)")
    }
}

enum CompanionTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        guard bytes.count > 1 else { return }
        let target = bytes.extracting(1..<bytes.count).copiedBytes()
        guard target.count < 4096, !target.contains(0) else { return }
        let root = ring.metadata.rootID
        // The entry that this target would have, and sometimes another.
        var long = names.longName(of: target, in: root)
        let isOther = bytes[0] & 1 == 1
        if isOther { long[20] = long[20] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A") }
        guard let entry = EntryName(long), let companion = EntryName(long + Array(".n".utf8)) else {
            fatalError("a long name is no entry's")
        }
        let store = MemoryStore()
        let volume = volume(store)
        do {
            _ = try store.root.createFile(entry, mode: 0o600)
            try store.root.createSymlink(companion, target: target)
        } catch { return }
        let decoded: [UInt8]?
        do { decoded = try volume.decodeLong(entry, in: store.root, root) } catch { return }
        if let name = decoded {
            check(!isOther, "a name verifies under another's hash")
            check(name.count > NameLimits.longestNeverLong && NameCipher.isValid(name), "a long name is none")
            guard let again = try? names.encode(name, in: root) else { fatalError("a name cannot be encoded again") }
            check(again.companion?.target == target, "two companions give one name")
            check(again.entry == entry && again.companion?.name == companion, "two entries have one name")
        }
        // What a listing shows, and what a lookup of that name finds, is the same.
        var shown: [[UInt8]] = []
        _ = try? volume.list(volume.root, from: 0, attributes: .none) { listed in
            shown.append(listed.name)
            return true
        }
        let own = shown.filter { $0 != Array(".".utf8) && $0 != Array("..".utf8) }
        check(own.count == 1, "an entry hides, or its companion shows")
        check(own.first == decoded || own.first == Volume.nameShown(for: entry), "an entry shows as another")
        check((try? volume.lookup(own[0], in: volume.root)) != nil, "what is listed is not found")
    }

    static func seeds() -> [[UInt8]] {
        var result: [[UInt8]] = []
        for length in [1, 175, 176, 200, 255] {
            let name = pattern(length, from: 48).map { $0 == 0 || $0 == 0x2f ? UInt8(ascii: "x") : $0 }
            guard let encoded = try? names.encode(name, in: ring.metadata.rootID) else { continue }
            let target = encoded.companion?.target ?? Array(encoded.entry.bytes)
            result += [[0] + target, [1] + target]
        }
        return result
    }
}
