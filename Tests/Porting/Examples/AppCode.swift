// Spellings of applications and of libraries for them, of which Foundation on Linux makes something else than an iPhone's.

import FileProtection

/// Resource values by a set in a variable, and the class as a string. The word is a file.
func valuesByVariable(in directory: URL, _ words: [String]) throws {
    var url = directory / words[0]
    var marked = URLResourceValues()
    marked.isExcludedFromBackup = true
    try url.setResourceValues(marked)
    let keys: Set<URLResourceKey> = [
        .isExcludedFromBackupKey, .fileProtectionKey, .fileSizeKey, .volumeSupportsFileProtectionKey,
    ]
    let values = try url.resourceValues(forKeys: keys)
    print("\(values.isExcludedFromBackup ?? false) \(values.fileProtection == .complete) \(values.fileSize ?? -1)")
    print(values.volumeSupportsFileProtection ?? false, values.allValues.count)
    print(values.allValues[.fileProtectionKey] as? String ?? "nil")
    let plain: Foundation.URLResourceValues = values
    print(plain[keyPath: \.isExcludedFromBackup] ?? false, plain.fileProtection?.rawValue ?? "nil")
    // What was read can be set elsewhere.
    var other = directory / "other"
    try Data().write(to: other)
    try other.setResourceValues(values)
    print(try protection(of: other))
    let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
    print(
        attributes[.protectionKey] as? String ?? "nil", attributes[.protectionKey] as? FileProtectionType == .complete)
    // As code that copies attributes does.
    let kept: [FileAttributeKey: Any] = [.protectionKey: attributes[.protectionKey] as Any]
    try FileManager.default.setAttributes(kept, ofItemAtPath: other.path)
    print(try protection(of: other))
}

/// Sweeps a cache as libraries do: the oldest files go until the rest takes at most so many bytes on the disk.
private func sweep(_ cache: URL, most: Int, _ size: (URLResourceValues) -> Int?) throws {
    let keys: Set<URLResourceKey> = [.totalFileAllocatedSizeKey, .fileAllocatedSizeKey, .contentModificationDateKey]
    var files = try FileManager.default.contentsOfDirectory(at: cache, includingPropertiesForKeys: Array(keys)).map {
        ($0, try $0.resourceValues(forKeys: keys))
    }
    files.sort { ($0.1.contentModificationDate ?? .distantPast) > ($1.1.contentModificationDate ?? .distantPast) }
    var total = files.reduce(0) { $0 + (size($1.1) ?? 0) }
    while total > most, let (oldest, values) = files.popLast() {
        try FileManager.default.removeItem(at: oldest)
        total -= size(values) ?? 0
    }
}

/// Caches of ten files of 16 KiB with room for 1 MiB, and with room for half of them. Words: on a mount and off one.
func sweeps(in directory: URL, _ words: [String]) throws {
    for most in [1 << 20, 90 << 10] {
        for (name, size) in [("file", \URLResourceValues.fileAllocatedSize), ("total", \.totalFileAllocatedSize)] {
            let cache = directory / "\(name) \(most)"
            try FileManager.default.createDirectory(at: cache, withIntermediateDirectories: false)
            for number in 0..<10 {
                try Data(repeating: 1, count: 16 << 10).write(to: cache / "\(number)")
                let date = Date(timeIntervalSince1970: 1_000_000 + Double(number))
                try FileManager.default.setAttributes(
                    [.modificationDate: date], ofItemAtPath: (cache / "\(number)").path)
            }
            try sweep(cache, most: most) { $0[keyPath: size] }
            print(name, try FileManager.default.contentsOfDirectory(atPath: cache.path).count)
        }
    }
    let url = directory / "file 1048576/0"
    var value: AnyObject?
    try (url as NSURL).getResourceValue(&value, forKey: .totalFileAllocatedSizeKey)
    let all = try (url as NSURL).resourceValues(forKeys: [.fileAllocatedSizeKey])
    print(value as? Int == all[.fileAllocatedSizeKey] as? Int, (value as? Int ?? 0) < 32 << 10)
}

/// Copies and moves each word to another directory, the first word.
func export(in directory: URL, _ words: [String]) {
    for word in words.dropFirst() {
        let target = URL(fileURLWithPath: words[0]) / word
        step("\(word) copied") { try FileManager.default.copyItem(at: directory / word, to: target) }
        step("\(word) moved") {
            try FileManager.default.moveItem(at: directory / word, to: URL(fileURLWithPath: words[0]) / "\(word) moved")
        }
    }
}

/// Files by descriptor. The word is the number of the class that a new file gets.
func descriptors(in directory: URL, _ words: [String]) {
    let path = (directory / "opened").path
    let made = open_dprotected_np(path, O_RDWR | O_CREAT, Int32(words[0]) ?? 0, 0, 0o600)
    print(made >= 0 ? "made" : "errno \(errno)")
    guard made >= 0 else { return print("left: \(FileManager.default.fileExists(atPath: path))") }
    print(fcntl(made, F_GETPROTECTIONCLASS), write(made, "abc", 3))
    close(made)
    let again = open_dprotected_np(path, O_RDWR | O_CREAT, 4, 0, 0o600)
    print(fcntl(again, F_GETPROTECTIONCLASS), open_dprotected_np(path, O_RDWR | O_CREAT | O_EXCL, 4, 0, 0o600))
    print(fcntl(again, F_SETPROTECTIONCLASS, 3), fcntl(again, F_GETPROTECTIONCLASS))
    print(
        fcntl(again, F_SETPROTECTIONCLASS, 5), errno == EINVAL, open_dprotected_np(path, O_RDWR, 1, 1), errno == EINVAL)
    let outside = open("/dev/null", O_RDWR)
    print(
        fcntl(outside, F_GETPROTECTIONCLASS), errno == ENOTSUP, fcntl(outside, F_SETPROTECTIONCLASS, 1),
        errno == ENOTSUP)
}

/// The directory of a group of programs, before a container is used and after it.
func groups(in directory: URL, _ words: [String]) throws {
    let manager = FileManager.default
    print(manager.containerURL(forSecurityApplicationGroupIdentifier: "group.org.example")?.path ?? "nil")
    try ProtectedContainer.use(at: directory / "app")
    print(manager.containerURL(forSecurityApplicationGroupIdentifier: "group.org.example")?.path ?? "nil")
    for name in ["", ".", "..", "../x", "a/b"] {
        if manager.containerURL(forSecurityApplicationGroupIdentifier: name) != nil { print("made \(name)") }
    }
}

/// What an application does at a logout: its Application Support and its caches are emptied.
func clearAtLogout(in directory: URL, _ words: [String]) throws {
    let manager = FileManager.default
    for place in [FileManager.SearchPathDirectory.applicationSupportDirectory, .cachesDirectory] {
        let own = try manager.url(for: place, in: .userDomainMask, appropriateFor: nil, create: true)
        print(own.path)
        print(manager.urls(for: place, in: .userDomainMask) == [own])
        print(NSSearchPathForDirectoriesInDomains(place, .userDomainMask, true) == [own.path])
        try Data("mine".utf8).write(to: own / "mine")
        for item in try manager.contentsOfDirectory(at: own, includingPropertiesForKeys: nil) {
            try manager.removeItem(at: item)
        }
        print(try manager.contentsOfDirectory(atPath: own.path).count)
    }
    print(
        URL.applicationSupportDirectory.path
            == manager.urls(for: .applicationSupportDirectory, in: .userDomainMask)[0].path)
}
