// The mark for backups, capacities, and a link that leads nowhere.

import FileProtection

private func isExcluded(_ url: URL) throws -> Bool? {
    try url.resourceValues(forKeys: [.isExcludedFromBackupKey]).isExcludedFromBackup
}

func marking(in directory: URL, _ words: [String]) {
    for word in words {
        var url = directory / word
        var values = URLResourceValues()
        show("\(word) before") { try isExcluded(url).map { "\($0)" } ?? "nil" }
        values.isExcludedFromBackup = true
        step("\(word) marked") { try url.setResourceValues(values) }
        show("\(word) after") { try isExcluded(url).map { "\($0)" } ?? "nil" }
    }
}

func unmarking(in directory: URL, _ words: [String]) {
    var url = directory / words[0]
    var values = URLResourceValues()
    values.isExcludedFromBackup = false
    for _ in 0..<2 { step("unmarked") { try url.setResourceValues(values) } }
    show("after") { try isExcluded(url).map { "\($0)" } ?? "nil" }
    show("capacities") {
        let keys: Set<URLResourceKey> = [
            .volumeAvailableCapacityKey, .volumeAvailableCapacityForImportantUsageKey,
            .volumeAvailableCapacityForOpportunisticUsageKey,
        ]
        let values = try url.resourceValues(forKeys: keys)
        let important = values.volumeAvailableCapacityForImportantUsage ?? -1
        let opportunistic = values.volumeAvailableCapacityForOpportunisticUsage ?? -1
        return important > 0 && opportunistic > 0 && values.allValues.count == keys.count
    }
    step("missing") { _ = try isExcluded(directory / "missing") }
    show("link reachable") { try (directory / "link").checkResourceIsReachable() }
    show("missing reachable") { try (directory / "missing").checkResourceIsReachable() }
}

/// The same mark by the older interface.
func marksOfNSURL(in directory: URL, _ words: [String]) {
    let url = directory / words[0] as NSURL
    let key = URLResourceKey.isExcludedFromBackupKey
    func marks() throws -> String {
        var value: AnyObject?
        try url.getResourceValue(&value, forKey: key)
        let all = try url.resourceValues(forKeys: [key, .fileSizeKey])
        return "\(value as? Bool ?? false) \(all[key] as? Bool ?? false) \(all.count)"
    }
    show("before") { try marks() }
    step("one") { try url.setResourceValue(true, forKey: key) }
    show("after one") { try marks() }
    step("one back") { try url.setResourceValue(NSNumber(value: false), forKey: key) }
    show("after one back") { try marks() }
    step("several") { try url.setResourceValues([key: true, .fileProtectionKey: URLFileProtection.none]) }
    show("after several") { try marks() }
    step("nothing") { try url.setResourceValue(nil, forKey: key) }
    show("after nothing") { try marks() }
    step("wrong") { try url.setResourceValue("yes", forKey: key) }
}
