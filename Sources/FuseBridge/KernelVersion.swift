// The version of Linux, for differences between kernels that capabilities do not show.

internal import CLibrary

/// A kernel's version. Two versions can be compared.
package struct KernelVersion: Sendable, Comparable {
    var major: Int
    var minor: Int

    /// The version `major`.`minor`.
    package init(_ major: Int, _ minor: Int) {
        self.major = major
        self.minor = minor
    }

    /// Parses the release of uname(2), such as "6.1.0-18-amd64". Nil if it does not begin with two numbers.
    package init?(release: String) {
        let parts = release.split(separator: ".", maxSplits: 2, omittingEmptySubsequences: false)
        guard parts.count >= 2, let major = Int(parts[0]), let minor = Int(parts[1].prefix { $0.isNumber }) else {
            return nil
        }
        self.init(major, minor)
    }

    /// The running kernel's version. Nil if it does not report one.
    package static let running: KernelVersion? = {
        var name = utsname()
        guard unsafe uname(&name) == 0 else { return nil }
        let release = unsafe withUnsafeBytes(of: &name.release) { bytes in
            // uname(2) ends it with a zero byte, inside the field.
            unsafe String(decoding: bytes.prefix { $0 != 0 }, as: UTF8.self)
        }
        return KernelVersion(release: release)
    }()

    /// Older kernels come first.
    package static func < (one: KernelVersion, other: KernelVersion) -> Bool {
        (one.major, one.minor) < (other.major, other.minor)
    }
}
