// Measures a volume while the check runs, for an estimate of the remaining time.

internal import BackingStore
internal import HostSystem
internal import ProtectedVolume
internal import VolumeFormat

extension Check {
    /// The weight of an object besides its bytes, about the cost of a lookup.
    static var objectWeight: UInt64 { 16384 }

    /// Measures the whole tree and reports the total. Reports nothing after an error.
    func measure() {
        var total = CheckProgress.Total()
        var way = Descent(from: volume.rootDirectory)
        guard var waiting = (try? measure(volume.rootDirectory, &total)).map({ [$0] }) else { return }
        while let level = waiting.last {
            guard mayGoOn(), !isDone else { return }
            guard let next = level.last else {
                waiting.removeLast()
                way.leave()
                continue
            }
            waiting[waiting.count - 1].removeLast()
            guard (try? way.enter(next)) != nil else { continue }
            guard let directory = try? way.directory(), let below = try? measure(directory, &total) else { return }
            waiting.append(below)
        }
        expect(total)
    }

    /// Adds what is in one directory.
    ///
    /// - Returns: the directories in it.
    private func measure(
        _ directory: BackingDirectory, _ total: inout CheckProgress.Total
    ) throws(Errno) -> [DirectoryEntry] {
        total.add(size: 0)
        var below: [DirectoryEntry] = []
        try directory.forEachEntry { entry in
            if ReservedName.kind(of: entry.name.bytes.span).isHidden { return true }
            guard mayGoOn(), !isDone else { return false }
            guard let status = try? directory.status(of: entry.name) else { return true }
            if status.kind == .directory {
                below.append(entry)
            } else {
                total.add(size: weight(of: status) - Self.objectWeight)
            }
            return true
        }
        return below
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
