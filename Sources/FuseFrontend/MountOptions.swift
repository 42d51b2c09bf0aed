// The parsed words after `-o`. `MountOption` has the table of the words.

package import FileContents
internal import VolumeFormat

/// A word of `-o` that cannot be used.
package enum MountOptionError: Error, Equatable, Sendable {
    /// The table does not contain it.
    case unknown(String)
    /// It needs a value, or its value is invalid.
    case badValue(option: String, value: String, expected: String)
}

/// The options after `-o`.
package struct MountOptions: Sendable, Equatable {
    /// The options of the volume, passed on unchanged.
    package var volume = VolumeOptions()
    /// Other users may see the mount.
    package var allowsOther = false
    /// Files of class A are read and written past the kernel's page cache.
    package var bypassesCacheForComplete = false
    /// Requests come over io_uring where the kernel has it.
    package var usesRings = false
    /// Lock after this many seconds without use of protected files.
    package var idleSeconds: UInt64?
    /// Close class 7 this many seconds after a lock.
    package var inactiveSeconds: UInt64 = 600
    /// Shown as the owner of everything.
    package var user: UInt32?
    /// Shown as the group of everything.
    package var group: UInt32?
    /// Permission bits taken from everything.
    package var mask: UInt32?
    /// Words that the kernel gets unchanged: `noatime`, `nodev` …
    package var kernelOptions: [String] = []
    /// The words are for a mount that exists.
    package var isRemount = false
    /// The log may hold names of files and programs. Not an option of `-o`: fstab is not the place to ask for it.
    package var logsNames = false

    /// The defaults.
    package init() {}

    /// Takes the lists after each `-o`. Later words win.
    package static func parse(_ lists: [String]) throws(MountOptionError) -> MountOptions {
        var result = MountOptions()
        for list in lists {
            for word in list.split(separator: ",") { try result.take(String(word)) }
        }
        return result
    }

    private mutating func take(_ word: String) throws(MountOptionError) {
        let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
        if word.hasPrefix("x-") { return }
        guard let option = MountOption.all.first(where: { $0.name == parts[0] }) else { throw .unknown(word) }
        switch (option.value, parts.count) {
        case (nil, 1): try option.take(&self, "")
        case (nil, _): throw .unknown(word)
        case (.some, 1): throw .badValue(option: option.name, value: "", expected: "a value after " + option.name + "=")
        case (.some, _): try option.take(&self, parts[1])
        }
    }

    /// The words for libfuse but the mount's source: its type, and the checks that the kernel does.
    var sessionOptions: [String] {
        var words = ["subtype=protectfs", "default_permissions"]
        if volume.isReadOnly { words.append("ro") }
        if allowsOther { words.append("allow_other") }
        return words + kernelOptions
    }
}
