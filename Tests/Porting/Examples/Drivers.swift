// Calls each example of the documents with what the test gives it.

import UIKitCompat

/// An example gets a directory and the rest of the words.
typealias Example = @MainActor @Sendable (URL, [String]) throws -> Void

@MainActor let examples: [String: Example] = [
    "save": save, "set": set, "directory": directory, "download": download, "until": until, "read": read,
    "thumbnail": thumbnail, "check": check, "user": user, "launch": launch, "database": database, "lower": lower,
    "ubiquity": ubiquity, "resource": resource, "application": application, "nsdata": nsdata, "default": inDefault,
    "plain": saveWithoutClass, "attributes": attributesTogether, "values": resourceValues, "files": copyMoveReplace,
    "trees": trees, "names": readByEveryName, "policy": policies, "atomic": atomicWriters, "backups": backups,
    "copies": copies, "permissions": permissions, "moves": moves, "newer": newer, "places": places,
    "replacing": replacing, "replacementDirectories": replacementDirectories, "replaceAny": replaceAny,
    "coordinating": coordinating, "coordination": coordination, "streams": streams, "openStreams": openStreams,
    "handles": handles, "enumerated": enumerated, "archived": archived, "bundled": bundled, "defaults": defaults,
    "fetched": fetched, "marking": marking, "unmarking": unmarking, "marksOfNSURL": marksOfNSURL, "tighten": tighten,
    "tighten-written": tightenWhileWritten, "value": getResourceValue, "unless-open": makeUnlessOpen,
    "container": container, "launch-by-name": launchByName, "inactive": inactive, "crowd": crowd,
    "crowdWhileLocked": crowdWhileLocked, "variable": valuesByVariable, "sweeps": sweeps, "export": export,
    "logout": clearAtLogout, "databases": databases, "descriptors": descriptors, "groups": groups,
    "trash": trash, "device": device,
]

private func device(in directory: URL, _ words: [String]) {
    let device = UIDevice.current
    print(device.name, device.systemName, device.systemVersion, device.identifierForVendor?.uuidString ?? "nil")
}

private func save(in directory: URL, _ words: [String]) {
    step("new") { try saveSensitiveData(Data("new".utf8), to: directory / "new") }
    step("existing") { try updateSensitiveData(Data("updated".utf8), at: directory / "existing") }
}

private func set(in directory: URL, _ words: [String]) {
    step("set") { try protectExistingFile(at: directory / "existing") }
}

private func directory(in directory: URL, _ words: [String]) {
    step("create") { try createPrivateFolder(at: directory / "private") }
    step("note") { try saveNote("note", in: directory / "private") }
    // A folder below inherits what the files in it are to have.
    step("below") {
        try FileManager.default.createDirectory(at: directory / "private/below", withIntermediateDirectories: false)
    }
}

/// Each line that comes is a part; "end" ends the download, and the line after that looks at what has come.
private func download(in directory: URL, _ words: [String]) throws {
    let url = directory / "download"
    let download = try BackgroundDownload(savingTo: url)
    print("open")
    while let line = readLine(), line != "end" {
        step("write") { try download.received(Data(line.utf8)) }
    }
    step("close") { try download.finish() }
    for _ in 0..<2 {
        show("reopen") { try String(contentsOf: url, encoding: .utf8) }
        _ = readLine()
    }
}

private func until(in directory: URL, _ words: [String]) {
    step("save") { try saveToken("newer", to: directory / "token") }
    show("token") { try tokenInBackground(at: directory / "token") }
}

private func read(in directory: URL, _ words: [String]) {
    let url = directory / "existing"
    show("try?") { text(sensitiveDataIfReadable(at: url)) }
    show("catch") { text(try loadSensitiveData(from: url)) }
    // What a program sees of the error that the example catches, and of the other ways to read.
    step("data") { _ = try Data(contentsOf: url) }
    step("handle") { try FileHandle(forReadingFrom: url).close() }
    step("string") { _ = try String(contentsOf: url, encoding: .utf8) }
    show("contents") { text(FileManager.default.contents(atPath: url.path)) }
}

private func thumbnail(in directory: URL, _ words: [String]) {
    step("save") { try saveThumbnail(Data("image".utf8), to: directory / "thumbnail") }
    show("thumbnail") { text(try thumbnail(at: directory / "thumbnail")) }
}

private func check(in directory: URL, _ words: [String]) {
    for word in words { show(word) { try describeProtection(ofFileAt: directory / word) } }
}

private func user(in directory: URL, _ words: [String]) {
    let url = directory / "user.json"
    let ada = User(name: "Ada", token: "0123")
    step("save") { try saveUser(ada, to: url) }
    show("load") { try loadUser(from: url) == ada }
}

private func launch(in directory: URL, _ words: [String]) throws {
    for (number, url) in try standardDirectories().enumerated() {
        step("protect \(number)") { try protectAtLaunch(url) }
        step("new file") { try Data("new".utf8).write(to: url / "new") }
        show("class") { try protection(of: url / "new") }
    }
}

private func database(in directory: URL, _ words: [String]) throws {
    #if SQLITE
        do {
            let database = try Database(in: directory / "database")
            try database.addNote("note")
            print("notes: \(try database.countNotes())")
            for name in try FileManager.default.contentsOfDirectory(atPath: (directory / "database").path).sorted() {
                show(name) { try protection(of: directory / "database" / name) }
            }
        } catch let error as DatabaseError {
            print("SQLite \(error.code): \(error.message)")
        }
    #else
        print("built without SQLite")
    #endif
}

private func lower(in directory: URL, _ words: [String]) {
    step("attributes") { try prepareForBackgroundTask(directory / "existing") }
    step("option") { try Data("lower".utf8).write(to: directory / "other", options: .noFileProtection) }
}

private func ubiquity(in directory: URL, _ words: [String]) throws {
    try saveToCloud(Data("x".utf8), named: "x")
}

private func resource(in directory: URL, _ words: [String]) {
    step("set") { try protectByURL(directory / "existing") }
    show("complete") { try isComplete(directory / "existing") }
}

/// Each line that comes is an entry; "?" is none. Answered with whether the journal is open. The word is "delegate",
/// "notifications", "dispatchMain" (these, without a run loop), or "elsewhere": the delegate, while notifications come on
/// another queue.
@MainActor private func application(in directory: URL, _ words: [String]) throws {
    let application = UIApplication.shared
    // Asks first, by the home directory, and is told from later on.
    let isLate = words == ["late"]
    if isLate {
        print(application.isProtectedDataAvailable)
        _ = readLine()
    }
    let queue = words == ["elsewhere"] ? DispatchQueue(label: "elsewhere") : .main
    if !isLate { try application.useProtectedData(at: directory, deliveringOn: queue) }
    let journal = Journal(at: directory / "journal")
    let delegate = AppDelegate(journal)
    var observers: [any NSObjectProtocol] = []
    if words == ["notifications"] || words == ["dispatchMain"] {
        observers = observeProtectedData(for: journal)
    } else {
        application.delegate = delegate
    }
    if !isLate, application.isProtectedDataAvailable { try journal.open() }
    Thread.detachNewThread {
        while let line = readLine() {
            DispatchQueue.main.sync {
                MainActor.assumeIsolated {
                    if line != "?" { step("entry") { try journal.add(line) } }
                    print(journal.isOpen ? "open" : "closed")
                }
            }
        }
        DispatchQueue.main.sync { MainActor.assumeIsolated { journal.close() } }
        exit(0)
    }
    withExtendedLifetime((delegate, observers)) {
        if words == ["dispatchMain"] { dispatchMain() } else { RunLoop.main.run() }
    }
}

private func nsdata(in directory: URL, _ words: [String]) {
    let data = Data("abc".utf8) as NSData
    step("a") { try saveComplete(data, to: directory / "nsdata.a") }
    step("b") { try saveUnlessOpen(data, toFile: (directory / "nsdata.b").path) }
    step("c") { try saveUntilFirstUnlock(data, toFile: (directory / "nsdata.c").path) }
    step("d") { try saveUnprotected(data, to: directory / "nsdata.d") }
    show("atomically") { saveAsBefore(data, toFile: (directory / "nsdata.d").path) }
    show("on a directory") { saveAsBefore(data, toFile: directory.path) }
}

private func inDefault(in directory: URL, _ words: [String]) {
    step("in place") { try saveInDefaultClass(Data("x".utf8), to: directory / words[0]) }
    step("atomic") { try saveAtomicallyInDefaultClass(Data("x".utf8), to: directory / "\(words[0]).atomic") }
}

/// A name below a directory.
func / (directory: URL, name: String) -> URL { directory.appendingPathComponent(name) }
