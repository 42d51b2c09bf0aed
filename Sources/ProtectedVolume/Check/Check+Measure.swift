// Measures a volume while the check runs, for an estimate of the remaining time.

internal import BackingStore
internal import HostSystem
internal import VolumeFormat

extension Check {
    /// The weight of an object besides its bytes, about the cost of a lookup.
    static var objectWeight: UInt64 { 16384 }

    /// Measures the whole tree and reports the total. Reports nothing after an error.
    func measure() {
        var total = CheckProgress.Total()
        guard (try? measure(volume.rootDirectory, depth: 0, &total)) == true else { return }
        expect(total)
    }

    /// - Returns: false if the check has ended meanwhile, or if the tree is too deep for the descriptors.
    private func measure(
        _ directory: BackingDirectory, depth: Int, _ total: inout CheckProgress.Total
    ) throws(Errno) -> Bool {
        guard depth < 100 else { return false }
        total.add(size: 0)
        var failure: Errno?
        var goesOn = true
        try directory.forEachEntry { entry in
            if ReservedName.kind(of: entry.name.bytes.span).isHidden { return true }
            guard mayGoOn(), !isDone else {
                goesOn = false
                return false
            }
            guard let status = try? directory.status(of: entry.name) else { return true }
            guard status.kind == .directory else {
                total.add(size: weight(of: status) - Self.objectWeight)
                return true
            }
            guard let below = try? directory.openDirectory(entry.name) else { return true }
            do throws(Errno) { goesOn = try measure(below, depth: depth + 1, &total) } catch { failure = error }
            return goesOn && failure == nil
        }
        if let failure { throw failure }
        return goesOn
    }

    /// The weight of an object other than a directory. The bytes of files that a quick check will not read do not count.
    func weight(of status: Status) -> UInt64 {
        let isRead = status.kind == .regular && scope?.probablyReads(status) ?? true
        return Self.objectWeight &+ (isRead ? status.size : 0)
    }
}

extension CheckProgress.Total {
    fileprivate mutating func add(size: UInt64) {
        objects += 1
        bytes &+= size
        work &+= Check.objectWeight &+ size
    }
}
