// The version of the format and of the program, which every keybag and state file names.

/// The version of the volume format that this program reads and writes. Keybags, state files, headers, records, late files,
/// symlink targets and attribute values carry it (docs/judge/volume-format.md, section 11).
package enum FormatVersion {
    /// The version in every object that this program writes.
    package static let current: UInt16 = 2
    /// The version of the first test volumes. It was never released, and is not read.
    package static let neverReleased: UInt16 = 1
}

/// The program's own version.
package enum ProgramVersion {
    /// The number, as `protectfs version` shows it.
    package static let number = "0.3.0"
    /// The program's name in the TLV `writer`.
    package static let writer = "protectfs \(number)"
}
