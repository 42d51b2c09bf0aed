// Versions by file, in little memory: sorted arrays, and a dictionary of what has changed since they were made.

/// Versions of files by their names in a table of seen versions. A million files take 12 MB, where a dictionary takes 27 to 54.
struct VersionMap: Sendable {
    /// The names, ascending, and their versions.
    private var (keys, versions): ([UInt64], [UInt32]) = ([], [])
    /// What has changed since. It is above the arrays, and 0 says that a file is not there.
    private var changed: [UInt64: UInt32] = [:]
    /// How many files have a version.
    private(set) var count = 0

    /// The changes that are kept apart. Each time that there are more, they and the arrays become new arrays, so these are copied
    /// some eight times while they grow to any length.
    private var mostChanged: Int { max(4096, keys.count / 8) }

    /// The version of a file; 0 if it has none, and to remove it.
    subscript(key: UInt64) -> UInt32 {
        get { changed[key] ?? kept(key) }
        set {
            if newValue != 0, changed.isEmpty, keys.last.map({ $0 < key }) ?? true { return append(key, newValue) }
            let before = self[key]
            guard newValue != before else { return }
            if before == 0 { count += 1 } else if newValue == 0 { count -= 1 }
            changed[key] = newValue
            if changed.count > mostChanged { merge() }
        }
    }

    /// Calls `act` for each file that has a version, in ascending order.
    func forEach<Failure: Error>(_ act: (UInt64, UInt32) throws(Failure) -> Void) throws(Failure) {
        let newer = changed.sorted { $0.key < $1.key }
        var next = 0
        for (key, version) in newer {
            while next < keys.count, keys[next] < key {
                try act(keys[next], versions[next])
                next += 1
            }
            if next < keys.count, keys[next] == key { next += 1 }
            if version != 0 { try act(key, version) }
        }
        while next < keys.count {
            try act(keys[next], versions[next])
            next += 1
        }
    }

    /// Makes room for `count` files that come in ascending order.
    mutating func reserve(_ count: Int) {
        keys.reserveCapacity(count)
        versions.reserveCapacity(count)
    }

    private func kept(_ key: UInt64) -> UInt32 {
        var (low, high) = (0, keys.count)
        while low < high {
            let middle = (low + high) / 2
            if keys[middle] < key { low = middle + 1 } else { high = middle }
        }
        return low < keys.count && keys[low] == key ? versions[low] : 0
    }

    private mutating func merge() {
        var merged = VersionMap()
        merged.reserve(count)
        forEach { merged.append($0, $1) }
        self = merged
    }

    /// Appends a file whose name is above all others in the arrays.
    private mutating func append(_ key: UInt64, _ version: UInt32) {
        keys.append(key)
        versions.append(version)
        count += 1
    }
}
