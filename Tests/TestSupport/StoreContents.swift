// What a store still holds after a power cut, for the tests of several modules.

package import BackingStore
internal import Glibc

/// How many states are tried after each power cut: PROTECTFS_POWERCUT is a factor, 1 unless given.
package let repairEffort = max(1, unsafe getenv("PROTECTFS_POWERCUT").flatMap { unsafe Int(String(cString: $0)) } ?? 1)

/// Everything that a store holds: contents of files and targets of links, whatever their names.
package func everything(below directory: BackingDirectory) throws -> [[UInt8]: Int] {
    var found: [[UInt8]: Int] = [:]
    for entry in try directory.entries() {
        let status = try directory.status(of: entry.name)
        switch status.kind {
        case .directory:
            for (bytes, count) in try everything(below: directory.openDirectory(entry.name)) {
                found[bytes, default: 0] += count
            }
        case .symlink: found[try directory.readSymlink(entry.name), default: 0] += 1
        default:
            var bytes = [UInt8](repeating: 0, count: Int(status.size))
            var raw = bytes.mutableSpan
            _ = try directory.openFile(entry.name, .readOnly).read(into: &raw, at: 0)
            found[bytes, default: 0] += 1
        }
    }
    return found
}
