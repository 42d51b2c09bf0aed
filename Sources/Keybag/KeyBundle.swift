// A decrypted bundle: which keys it has, and the keys in locked memory.

import SodiumKit
import VolumeFormat

/// The keys of a slot, with those of types and generations that this program does not know.
struct KeyBundle: ~Copyable, Sendable {
    /// The entries, in the order in which they are stored.
    let entries: [BundleEntry]
    private let bytes: SecretBytes

    private init(_ entries: [BundleEntry], _ bytes: consuming SecretBytes) {
        self.entries = entries
        self.bytes = bytes
    }

    /// The keys in the bytes of a bundle. Nil if they are not whole entries, if two have the same type and generation, or if a
    /// type of `needed` has no key of its generation among `generations`.
    static func parse(
        _ bytes: consuming SecretBytes, needed: [BundleEntry.KeyType], generations: [UInt16]
    ) -> KeyBundle? {
        guard let entries = bytes.withBytes({ Self.entries(in: $0) }) else { return nil }
        let bundle = KeyBundle(entries, bytes)
        for type in needed where bundle.index(of: type, type.generation(in: generations)) == nil { return nil }
        return bundle
    }

    private static func entries(in bytes: Span<UInt8>) -> [BundleEntry]? {
        guard bytes.count.isMultiple(of: BundleEntry.length) else { return nil }
        var entries: [BundleEntry] = []
        for offset in stride(from: 0, to: bytes.count, by: BundleEntry.length) {
            guard let entry = try? BundleEntry(parsing: bytes, at: offset),
                entries.allSatisfy({ $0.type != entry.type || $0.generation != entry.generation })
            else { return nil }
            entries.append(entry)
        }
        return entries
    }

    /// New random keys for `entries`.
    static func random(_ entries: [BundleEntry]) throws(SodiumError) -> KeyBundle {
        var bytes = try SecretBytes(byteCount: entries.count * BundleEntry.length)
        bytes.withMutableBytes { raw in
            randomBytes(into: &raw)
            for (index, entry) in entries.enumerated() { entry.store(into: &raw, at: index * BundleEntry.length) }
        }
        return KeyBundle(entries, bytes)
    }

    /// The entries that `isIncluded` chooses, in other locked memory.
    func filtered(_ isIncluded: (BundleEntry) -> Bool) throws(SodiumError) -> KeyBundle {
        let chosen = entries.indices.filter { isIncluded(entries[$0]) }
        var copy = try SecretBytes(byteCount: chosen.count * BundleEntry.length)
        bytes.withBytes { bytes in
            copy.withMutableBytes { raw in
                for (place, index) in chosen.enumerated() {
                    raw.copy(bytes.extracting(Self.range(index)), to: place * BundleEntry.length)
                }
            }
        }
        return KeyBundle(chosen.map { entries[$0] }, copy)
    }

    /// The same entries and `added`, in other locked memory. Those of `type` and the added ones get random keys.
    func renewed(_ type: BundleEntry.KeyType, adding added: [BundleEntry]) throws(SodiumError) -> KeyBundle {
        let all = entries + added
        var copy = try SecretBytes(byteCount: all.count * BundleEntry.length)
        bytes.withBytes { bytes in
            copy.withMutableBytes { raw in
                randomBytes(into: &raw)
                for (index, entry) in all.enumerated() {
                    if index < entries.count, entry.type != type {
                        raw.copy(bytes.extracting(Self.range(index)), to: index * BundleEntry.length)
                    } else {
                        entry.store(into: &raw, at: index * BundleEntry.length)
                    }
                }
            }
        }
        return KeyBundle(all, copy)
    }

    /// A copy in other locked memory.
    func copy() throws(SodiumError) -> KeyBundle { KeyBundle(entries, try bytes.copy()) }

    /// Lends the bundle's bytes, which must not be copied out of locked memory.
    func withBytes<Result: ~Copyable, Failure: Error>(
        _ body: (Span<UInt8>) throws(Failure) -> Result
    ) throws(Failure) -> Result {
        try bytes.withBytes(body)
    }

    /// A copy of the key of `type` and `generation`. Nil if there is none.
    func key(_ type: BundleEntry.KeyType, generation: UInt16) throws(SodiumError) -> SecretKey? {
        guard let index = index(of: type, generation) else { return nil }
        return try bytes.withBytes { bytes throws(SodiumError) in
            try SecretKey(copying: bytes.extracting(Self.keyRange(index)))
        }
    }

    /// Whether a key of `type` and `generation` is here.
    func hasKey(_ type: BundleEntry.KeyType, generation: UInt16) -> Bool { index(of: type, generation) != nil }

    /// Whether every key that both bundles have is the same. Compares in constant time.
    func agrees(with other: borrowing KeyBundle) -> Bool {
        var isSame = true
        bytes.withBytes { own in
            other.withBytes { others in
                for (place, entry) in entries.enumerated() {
                    guard let index = other.index(of: entry.type, entry.generation) else { continue }
                    let (one, two) = (Self.keyRange(place), Self.keyRange(index))
                    if !constantTimeEqual(own.extracting(one), others.extracting(two)) { isSame = false }
                }
            }
        }
        return isSame
    }

    private func index(of type: BundleEntry.KeyType, _ generation: UInt16) -> Int? {
        entries.firstIndex { $0.type == type && $0.generation == generation }
    }

    private static func range(_ index: Int) -> Range<Int> {
        index * BundleEntry.length..<(index + 1) * BundleEntry.length
    }

    private static func keyRange(_ index: Int) -> Range<Int> {
        index * BundleEntry.length + BundleEntry.keyOffset..<(index + 1) * BundleEntry.length
    }
}
