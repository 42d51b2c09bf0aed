// Coordinated access: exclusion within the process, presenters, and locked files.

import FileProtection

/// Reads and writes one file through a coordinator, as programs do.
func coordinating(in directory: URL, _ words: [String]) {
    let coordinator = NSFileCoordinator(filePresenter: nil)
    for word in words {
        let url = directory / word
        var error: NSError?
        coordinator.coordinate(readingItemAt: url, options: .withoutChanges, error: &error) { place in
            show("\(word) read") { try String(contentsOf: place, encoding: .utf8) }
        }
        coordinator.coordinate(writingItemAt: url, options: .forReplacing, error: &error) { place in
            step("\(word) written") { try Data("new".utf8).write(to: place, options: .atomic) }
        }
        if let error { print("\(word): \(outcome(of: error))") }
    }
}

/// What the coordinator promises within a process.
func coordination(in directory: URL, _ words: [String]) {
    show("increments that are not lost") { try increments(directory / "counter") }
    print("readers at the same time: \(readersMeet(directory / "counter"))")
    print("who replaces the directory and a reader in it: \(order(directory, directory / "counter"))")
    print("a writer of the directory and one in it: \(bothGoOn(directory, directory / "counter"))")
    print("another file goes on: \(othersGoOn(directory / "counter", directory / "other"))")
    print("nested: \(nested(directory / "counter"))")
    print("cancelled: \(cancelled(directory / "counter"))")
    print("intents: \(intents(directory / "counter", directory / "other"))")
    print("presenter: \(presented(directory / "counter").joined(separator: ", "))")
    print("presenter of the directory: \(presentedDirectory(directory).joined(separator: ", "))")
}

private final class Said: @unchecked Sendable {
    // The lock guards the lines.
    private let lock = NSLock()
    private var stored: [String] = []
    var lines: [String] { lock.withLock { stored } }
    func say(_ line: String) { lock.withLock { stored.append(line) } }
}

private func write(_ url: URL, _ body: (URL) -> Void) {
    NSFileCoordinator().coordinate(writingItemAt: url, error: nil, byAccessor: body)
}

private func read(_ url: URL, _ body: (URL) -> Void) {
    NSFileCoordinator().coordinate(readingItemAt: url, error: nil, byAccessor: body)
}

private func increments(_ url: URL) throws -> Int {
    try Data("0".utf8).write(to: url)
    DispatchQueue.concurrentPerform(iterations: 100) { _ in
        write(url) { place in
            let count = (try? String(contentsOf: place, encoding: .utf8)).flatMap { Int($0) } ?? -1000
            try? Data("\(count + 1)".utf8).write(to: place)
        }
    }
    return Int(try String(contentsOf: url, encoding: .utf8)) ?? -1
}

private func readersMeet(_ url: URL) -> Bool {
    let (first, second, done) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    Thread.detachNewThread {
        read(url) { _ in
            first.signal()
            second.wait()
        }
        done.signal()
    }
    read(url) { _ in
        first.wait()
        second.signal()
    }
    done.wait()
    return true
}

private func order(_ directory: URL, _ url: URL) -> String {
    let (said, begun, done) = (Said(), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    NSFileCoordinator().coordinate(writingItemAt: directory, options: .forReplacing, error: nil) { _ in
        Thread.detachNewThread {
            begun.signal()
            read(url) { _ in said.say("reader") }
            done.signal()
        }
        begun.wait()
        // Time for the reader to begin, if nothing held it back.
        Thread.sleep(forTimeInterval: 0.1)
        said.say("writer")
    }
    done.wait()
    return said.lines.joined(separator: ", ")
}

private func bothGoOn(_ directory: URL, _ url: URL) -> Bool {
    var hasRun = false
    write(directory) { _ in
        write(url) { _ in hasRun = true }
    }
    return hasRun
}

private func othersGoOn(_ url: URL, _ other: URL) -> Bool {
    let done = DispatchSemaphore(value: 0)
    write(url) { _ in
        Thread.detachNewThread {
            write(other) { _ in done.signal() }
        }
        done.wait()
    }
    return true
}

private func nested(_ url: URL) -> Bool {
    let coordinator = NSFileCoordinator()
    var hasRun = false
    coordinator.coordinate(writingItemAt: url, error: nil) { place in
        coordinator.coordinate(readingItemAt: place, error: nil) { _ in hasRun = true }
    }
    return hasRun
}

private func cancelled(_ url: URL) -> String {
    let (said, begun, done) = (Said(), DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
    let coordinator = NSFileCoordinator()
    write(url) { _ in
        Thread.detachNewThread {
            begun.signal()
            var error: NSError?
            coordinator.coordinate(writingItemAt: url, error: &error) { _ in said.say("ran") }
            said.say(error.map { "\($0.code)" } ?? "no error")
            done.signal()
        }
        begun.wait()
        coordinator.cancel()
        done.wait()
    }
    return said.lines.joined(separator: ", ")
}

private func intents(_ url: URL, _ other: URL) -> String {
    let (said, done) = (Said(), DispatchSemaphore(value: 0))
    let intents = [NSFileAccessIntent.readingIntent(with: url), NSFileAccessIntent.writingIntent(with: other)]
    NSFileCoordinator().coordinate(with: intents, queue: OperationQueue()) { error in
        said.say("\(error == nil), \(intents.map { $0.url.lastPathComponent }.joined(separator: " "))")
        done.signal()
    }
    done.wait()
    return said.lines.joined()
}

/// Says what it is asked.
private final class Presenter: NSFilePresenter, @unchecked Sendable {
    let presentedItemURL: URL?
    let presentedItemOperationQueue = OperationQueue()
    let said: Said
    let failure: CocoaError?

    init(_ url: URL, _ said: Said, failing failure: CocoaError? = nil) {
        (presentedItemURL, self.said, self.failure) = (url, said, failure)
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
    }

    func relinquishPresentedItem(toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void) {
        said.say("to reader")
        reader { [said] in said.say("back from reader") }
    }

    func relinquishPresentedItem(toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void) {
        said.say("to writer")
        writer { [said] in said.say("back from writer") }
    }

    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        said.say("saves")
        completionHandler(failure)
    }

    func accommodatePresentedItemDeletion(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        said.say("accommodates")
        completionHandler(nil)
    }

    func presentedItemDidChange() { said.say("changed") }
    func presentedItemDidMove(to newURL: URL) { said.say("moved to \(newURL.lastPathComponent)") }
    func presentedSubitemDidChange(at url: URL) { said.say("changed \(url.lastPathComponent)") }
}

private func presented(_ url: URL) -> [String] {
    let said = Said()
    let presenter = Presenter(url, said)
    NSFileCoordinator.addFilePresenter(presenter)
    defer { NSFileCoordinator.removeFilePresenter(presenter) }
    func settle(_ body: () -> Void) {
        body()
        presenter.presentedItemOperationQueue.waitUntilAllOperationsAreFinished()
        said.say("|")
    }
    settle { read(url) { _ in said.say("read") } }
    settle { write(url) { _ in said.say("written") } }
    settle {
        let coordinator = NSFileCoordinator()
        coordinator.coordinate(writingItemAt: url, options: .forDeleting, error: nil) { _ in said.say("deleted") }
        coordinator.item(at: url, didMoveTo: url.appendingPathExtension("old"))
    }
    settle { NSFileCoordinator(filePresenter: presenter).coordinate(writingItemAt: url, error: nil) { _ in } }
    NSFileCoordinator.removeFilePresenter(presenter)
    let failing = Presenter(url, said, failing: CocoaError(.fileWriteOutOfSpace))
    NSFileCoordinator.addFilePresenter(failing)
    defer { NSFileCoordinator.removeFilePresenter(failing) }
    var error: NSError?
    NSFileCoordinator().coordinate(readingItemAt: url, error: &error) { _ in said.say("read in spite of that") }
    failing.presentedItemOperationQueue.waitUntilAllOperationsAreFinished()
    said.say("\(error?.code ?? 0)")
    return said.lines
}

private func presentedDirectory(_ directory: URL) -> [String] {
    let said = Said()
    let presenter = Presenter(directory, said)
    NSFileCoordinator.addFilePresenter(presenter)
    defer { NSFileCoordinator.removeFilePresenter(presenter) }
    write(directory / "other") { _ in }
    presenter.presentedItemOperationQueue.waitUntilAllOperationsAreFinished()
    said.say("\(NSFileCoordinator.filePresenters.count)")
    return said.lines
}
