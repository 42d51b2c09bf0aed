// Paths as words of a command that a message shows, so that a person can copy it.

import HostSystem

extension HostPath {
    /// The path as one word of a shell command: in single quotes if it has other characters than plain ones, and never like an
    /// option.
    package var word: String {
        let text = (bytes.first == UInt8(ascii: "-") ? "./" : "") + description
        let isPlain =
            !text.isEmpty
            && text.utf8.allSatisfy { byte in
                switch byte {
                case UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                    UInt8(ascii: "0")...UInt8(ascii: "9"):
                    true
                default: "/._-+,:=@%".utf8.contains(byte)
                }
            }
        if isPlain { return text }
        return "'" + text.split(separator: "'", omittingEmptySubsequences: false).joined(separator: "'\\''") + "'"
    }
}
