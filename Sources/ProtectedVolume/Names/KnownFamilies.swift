// Remembers which names of a directory may have a family, so that an ordinary name costs no lookup.

internal import VolumeFormat

/// The base names and patterns of a directory's derived names, as far as the directory has been read.
struct KnownFamilies: Sendable {
    /// Names kept at most; with more of them every name may have a family.
    private static let capacity = 4096

    /// The patterns seen; never taken back.
    private var patterns: NameFamily.Patterns = []
    /// Hashes of the names that others are derived from; never taken back.
    private var roots: Set<Int> = []
    /// Where looking goes on; nil: every name was seen.
    var next: UInt64? = 0

    /// Takes in a name.
    mutating func take(_ name: [UInt8]) {
        let derivation = NameFamily.derivation(of: name.span)
        patterns.formUnion(derivation.patterns)
        for root in derivation.roots where roots.count < Self.capacity { roots.insert(name[root].hashValue) }
    }

    mutating func formUnion(_ other: KnownFamilies) {
        patterns.formUnion(other.patterns)
        for root in other.roots where roots.count < Self.capacity { roots.insert(root) }
    }

    /// The patterns by which names here may be derived from `name`.
    func patterns(for name: [UInt8]) -> NameFamily.Patterns {
        guard next == nil else { return .all }
        return roots.count >= Self.capacity || roots.contains(name[...].hashValue) ? patterns : []
    }
}
