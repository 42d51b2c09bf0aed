// The standard directories of a program that uses a container.

import FileProtection

/// What Foundation's names give before and after the container is used. The words: the container's directory and a class.
func container(in directory: URL, _ words: [String]) throws {
    let manager = FileManager.default
    let before = manager.urls(for: .documentDirectory, in: .userDomainMask)
    print("before: \(before.map(\.path)) \(NSHomeDirectory() == manager.homeDirectoryForCurrentUser.path)")
    let place = directory / words[0]
    let type = words.count > 1 ? FileProtectionType(rawValue: words[1]) : nil
    step("use") { try ProtectedContainer.use(at: place, class: type) }
    guard ProtectedContainer.current != nil else { return }
    func tell(_ name: String, _ path: String) {
        print("\(name): \(path.hasPrefix(place.path) ? String(path.dropFirst(place.path.count)) : path)")
    }
    let directories: [(String, FileManager.SearchPathDirectory)] = [
        ("documents", .documentDirectory), ("support", .applicationSupportDirectory), ("caches", .cachesDirectory),
        ("downloads", .downloadsDirectory),
    ]
    for (name, search) in directories {
        let urls = manager.urls(for: search, in: .userDomainMask)
        let url = try manager.url(for: search, in: .userDomainMask, appropriateFor: nil, create: true)
        let paths = NSSearchPathForDirectoriesInDomains(search, .userDomainMask, true)
        tell(name, url.path)
        var isDirectory: ObjCBool = false
        let exists = manager.fileExists(atPath: url.path, isDirectory: &isDirectory) && isDirectory.boolValue
        print("\(urls == [url]) \(paths == [url.path]) \(exists)")
    }
    tell("temporary", manager.temporaryDirectory.path)
    tell("temporary path", NSTemporaryDirectory())
    tell("home", NSHomeDirectory())
    let areSame = [
        URL.documentsDirectory == manager.urls(for: .documentDirectory, in: .userDomainMask)[0],
        URL.temporaryDirectory == manager.temporaryDirectory, URL.homeDirectory.path == NSHomeDirectory(),
    ]
    print(areSame.map { "\($0)" }.joined(separator: " "))
    step("file") { try Data("file".utf8).write(to: URL.documentsDirectory / "file", options: .atomic) }
    show("class of the file") { try protection(of: URL.documentsDirectory / "file") }
}
