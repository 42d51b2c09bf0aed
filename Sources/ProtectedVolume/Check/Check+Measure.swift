// Measures a volume while the check runs, for an estimate of the remaining time.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

extension Check {
    /// The weight of an object besides its bytes, about the cost of a lookup.
    static var objectWeight: UInt64 { 16384 }

    /// Measures the whole tree and reports the total. Reports nothing after an error.
    func measure() {
        var total: UInt64 = 0
        guard (try? measure(volume.rootDirectory, depth: 0, &total)) == true else { return }
        expect(total)
    }

    /// - Returns: false if the check has ended meanwhile, or if the tree is too deep for the descriptors.
    private func measure(
        _ directory: BackingDirectory, depth: Int, _ total: inout UInt64
    ) throws(Errno) -> Bool {
        guard depth < 100, mayGoOn(), !isDone else { return false }
        total &+= Self.objectWeight
        for entry in try directory.entries() {
            if ReservedName.kind(of: entry.name.bytes.span).isHidden { continue }
            let status: Status
            do throws(Errno) { status = try directory.status(of: entry.name) } catch { continue }
            if status.kind == .directory {
                guard let below = try? directory.openDirectory(entry.name) else { continue }
                guard try measure(below, depth: depth + 1, &total) else { return false }
            } else {
                total &+= Self.weight(of: status)
            }
        }
        return true
    }

    /// The weight of an object other than a directory.
    static func weight(of status: Status) -> UInt64 {
        objectWeight &+ (status.kind == .regular ? status.size : 0)
    }
}
