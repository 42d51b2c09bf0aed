// The class and flags of a file, once block 0 has proven them.

package import VolumeFormat

/// A class and flags that block 0 of the file has proven.
package struct VerifiedClass: Equatable, Sendable {
    /// The class.
    package let protectionClass: ProtectionClass
    /// The flags, of which `explicit` is one.
    package let flags: FileFlags

    /// What a verified header says.
    package init(_ header: FileHeader) {
        protectionClass = header.protectionClass
        flags = header.flags
    }

    /// Whether a header has the same class and flags, as far as decisions need them.
    package func agrees(with header: FileHeader) -> Bool {
        protectionClass == header.protectionClass
            && flags.contains(.explicit) == header.flags.contains(.explicit)
    }
}
