// Feature words for people and programs: each bit by its name or number.

/// Names the bits of a feature word. No feature has a name yet.
package enum FeatureNames {
    /// The names of the bits that are set.
    package static func names(_ word: UInt32) -> [String] {
        (0..<UInt32.bitWidth).filter { word & 1 << UInt32($0) != 0 }.map { "bit \($0)" }
    }

    /// The names in one text.
    package static func list(_ word: UInt32) -> String { word == 0 ? "none" : names(word).joined(separator: ", ") }
}
