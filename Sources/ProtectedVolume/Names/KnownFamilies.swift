// Remembers which names of a directory may have a family, so that an ordinary name costs no lookup.

internal import VolumeFormat

/// The base names and patterns of derived names in the part of a directory that has been read.
struct KnownFamilies: Sendable {
    /// The limit of names kept. Beyond it, every name may have a family.
    private static let capacity = 4096

    /// The patterns seen. Patterns are never removed.
    private var patterns: NameFamily.Patterns = []
    /// Hashes of the base names seen. Hashes are never removed.
    private var roots: Set<Int> = []
    /// The position at which reading continues; nil when every name was seen.
    var next: UInt64? = 0

    /// Adds a name that was read.
    mutating func take(_ name: Span<UInt8>) {
        let derivation = NameFamily.derivation(of: name)
        patterns.formUnion(derivation.patterns)
        for root in derivation.roots where roots.count < Self.capacity {
            roots.insert(Self.hash(name.extracting(root)))
        }
    }

    mutating func formUnion(_ other: KnownFamilies) {
        patterns.formUnion(other.patterns)
        for root in other.roots where roots.count < Self.capacity { roots.insert(root) }
    }

    /// The patterns by which names here may be derived from `name`.
    func patterns(for name: Span<UInt8>) -> NameFamily.Patterns {
        guard next == nil else { return .all }
        return roots.count >= Self.capacity || roots.contains(Self.hash(name)) ? patterns : []
    }

    private static func hash(_ name: Span<UInt8>) -> Int {
        var hasher = Hasher()
        for index in name.indices { hasher.combine(name[index]) }
        return hasher.finalize()
    }
}
