// Tests coordinated access: what waits for what, and what presenters are asked and told.

import Testing

@testable import FileProtection

/// Lines that several threads say.
private final class Said: @unchecked Sendable {
    // The lock guards the lines.
    private let lock = NSLock()
    private var stored: [String] = []
    var lines: [String] { lock.withLock { stored } }
    func say(_ line: String) { lock.withLock { stored.append(line) } }
}

/// A presenter that says what it is asked, and may do something when it is asked to relinquish.
private final class Presenter: NSFilePresenter, @unchecked Sendable {
    let presentedItemURL: URL?
    let presentedItemOperationQueue = OperationQueue()
    private let name: String
    private let said: Said
    private let relinquish: @Sendable (Presenter) -> Void

    init(_ url: URL, _ name: String, _ said: Said, _ relinquish: @escaping @Sendable (Presenter) -> Void = { _ in }) {
        (presentedItemURL, self.name, self.said, self.relinquish) = (url, name, said, relinquish)
        presentedItemOperationQueue.maxConcurrentOperationCount = 1
    }

    func relinquishPresentedItem(toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void) {
        said.say("\(name) to writer")
        relinquish(self)
        writer { [self] in said.say("\(name) back") }
    }

    func accommodatePresentedItemDeletion(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        said.say("\(name) accommodates")
        completionHandler(nil)
    }

    func presentedItemDidMove(to newURL: URL) { said.say("\(name) at \(newURL.lastPathComponent)") }
    func presentedItemDidChange() { said.say("\(name) changed") }
}

/// Runs a body in another thread. False if it has not ended after two minutes, as in a deadlock.
private func ends(_ body: @escaping @Sendable () -> Void) -> Bool {
    let done = DispatchSemaphore(value: 0)
    Thread.detachNewThread {
        body()
        done.signal()
    }
    return done.wait(timeout: .now() + 120) == .success
}

private func write(_ url: URL, _ options: NSFileCoordinator.WritingOptions = [], _ body: @escaping (URL) -> Void) {
    unsafe NSFileCoordinator().coordinate(writingItemAt: url, options: options, error: nil, byAccessor: body)
}

private func read(_ url: URL, _ body: @escaping () -> Void) {
    unsafe NSFileCoordinator().coordinate(readingItemAt: url, error: nil) { _ in body() }
}

/// Writes through the coordinator of a presenter.
private func save(_ own: Presenter, _ url: URL, _ body: @escaping () -> Void) {
    unsafe NSFileCoordinator(filePresenter: own).coordinate(writingItemAt: url, error: nil) { _ in body() }
}

@Suite struct CoordinationTests {
    private let directory = Foundation.FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    private var file: URL { directory.appendingPathComponent("file") }

    @Test func aPresenterSavesThroughItsCoordinatorWhileItIsAsked() {
        let (said, file) = (Said(), file)
        let presenter = Presenter(file, "presenter", said) { own in
            save(own, file) { said.say("saved") }
        }
        NSFileCoordinator.addFilePresenter(presenter)
        defer { NSFileCoordinator.removeFilePresenter(presenter) }
        #expect(ends { write(file) { _ in said.say("written") } })
        #expect(said.lines.prefix(3) == ["presenter to writer", "saved", "written"])
    }

    /// The first presenter saves both files. That asks the second one, whose save conflicts with the writer, too.
    @Test func aSaveThatAsksAnotherPresenterLetsThatSaveToo() {
        let (said, file, other) = (Said(), file, directory.appendingPathComponent("other"))
        let directory = directory
        let first = Presenter(file, "first", said) { own in
            let coordinator = NSFileCoordinator(filePresenter: own)
            unsafe coordinator.coordinate(writingItemAt: file, writingItemAt: other, error: nil) {
                said.say("first saved \($0.lastPathComponent) \($1.lastPathComponent)")
            }
        }
        let second = Presenter(other, "second", said) { own in
            if said.lines.contains("second saved") { return }
            save(own, other) {
                said.say("second saved")
            }
        }
        for presenter in [first, second] { NSFileCoordinator.addFilePresenter(presenter) }
        defer { for presenter in [first, second] { NSFileCoordinator.removeFilePresenter(presenter) } }
        #expect(ends { write(directory, .forMoving) { _ in said.say("written") } })
        #expect(
            said.lines.filter { !$0.hasSuffix("back") } == [
                "first to writer", "second to writer", "second saved", "first saved file other", "second changed",
                "second to writer", "written",
            ])
    }

    @Test func aWriterThatWaitsDoesNotHoldUpTheSave() {
        let (said, file) = (Said(), file)
        let presenter = Presenter(file, "presenter", said) { own in
            if said.lines.contains("second begins") { return }
            Thread.detachNewThread {
                said.say("second begins")
                write(file) { _ in said.say("second") }
            }
            // Time for the second writer to wait before the save.
            Thread.sleep(forTimeInterval: 0.2)
            save(own, file) { said.say("saved") }
        }
        NSFileCoordinator.addFilePresenter(presenter)
        defer { NSFileCoordinator.removeFilePresenter(presenter) }
        #expect(ends { write(file) { _ in said.say("first") } })
        #expect(ends { write(file) { _ in } })
        #expect(said.lines.filter { ["saved", "first", "second"].contains($0) } == ["saved", "first", "second"])
    }

    @Test func theAccessWaitsForASaveThatOutlastsTheAnswer() {
        let (said, file) = (Said(), file)
        let presenter = Presenter(file, "presenter", said) { own in
            let begun = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                save(own, file) {
                    begun.signal()
                    Thread.sleep(forTimeInterval: 0.2)
                    said.say("saved")
                }
            }
            begun.wait()
        }
        NSFileCoordinator.addFilePresenter(presenter)
        defer { NSFileCoordinator.removeFilePresenter(presenter) }
        #expect(ends { write(file) { _ in said.say("written") } })
        #expect(said.lines.prefix(3) == ["presenter to writer", "saved", "written"])
    }

    @Test func aSaveThatOutlastsTheAnswerMayBeNested() {
        let (said, file) = (Said(), file)
        let presenter = Presenter(file, "presenter", said) { own in
            let begun = DispatchSemaphore(value: 0)
            Thread.detachNewThread {
                let coordinator = NSFileCoordinator(filePresenter: own)
                unsafe coordinator.coordinate(writingItemAt: file, error: nil) { _ in
                    begun.signal()
                    Thread.sleep(forTimeInterval: 0.2)
                    unsafe coordinator.coordinate(writingItemAt: file, error: nil) { _ in said.say("nested") }
                }
            }
            begun.wait()
        }
        NSFileCoordinator.addFilePresenter(presenter)
        defer { NSFileCoordinator.removeFilePresenter(presenter) }
        #expect(ends { write(file) { _ in said.say("written") } })
        #expect(said.lines.prefix(3) == ["presenter to writer", "nested", "written"])
    }

    @Test func aPresenterThatDoesNotAnswerIsNotWaitedForAfterCancel() {
        let (said, file) = (Said(), file)
        let (asked, answers) = (DispatchSemaphore(value: 0), DispatchSemaphore(value: 0))
        let presenter = Presenter(file, "presenter", said) { _ in
            asked.signal()
            answers.wait()
        }
        NSFileCoordinator.addFilePresenter(presenter)
        defer { NSFileCoordinator.removeFilePresenter(presenter) }
        let coordinator = NSFileCoordinator()
        Thread.detachNewThread {
            asked.wait()
            coordinator.cancel()
        }
        #expect(
            ends {
                var error: NSError?
                unsafe coordinator.coordinate(writingItemAt: file, error: &error) { _ in said.say("written") }
                said.say("\(error?.code ?? 0)")
            })
        #expect(said.lines == ["presenter to writer", "3072"])
        answers.signal()
        presenter.presentedItemOperationQueue.waitUntilAllOperationsAreFinished()
        #expect(said.lines.last == "presenter back")
    }

    @Test func aWriterOfADirectoryDoesNotHoldUpWhatIsInIt() {
        let (said, file, directory) = (Said(), file, directory)
        #expect(ends { write(directory) { _ in write(file) { _ in said.say("inner") } } })
        #expect(
            ends {
                read(directory) {
                    write(file, .forDeleting) { _ in said.say("deleted") }
                }
            })
        #expect(said.lines == ["inner", "deleted"])
    }

    @Test(arguments: [NSFileCoordinator.WritingOptions.forDeleting, .forMoving, .forReplacing])
    func whoeverTakesADirectoryAwayIsAlone(_ options: NSFileCoordinator.WritingOptions) {
        let (said, file, directory) = (Said(), file, directory)
        let begun = DispatchSemaphore(value: 0)
        #expect(
            ends {
                let done = DispatchSemaphore(value: 0)
                write(directory, options) { _ in
                    Thread.detachNewThread {
                        begun.signal()
                        read(file) { said.say("reader") }
                        done.signal()
                    }
                    begun.wait()
                    Thread.sleep(forTimeInterval: 0.1)
                    said.say("writer")
                }
                done.wait()
            })
        #expect(said.lines == ["writer", "reader"])
    }

    @Test func presentersOfWhatIsInADirectoryAreAsked() {
        let (said, file, directory) = (Said(), file, directory)
        let presenter = Presenter(file, "inner", said)
        NSFileCoordinator.addFilePresenter(presenter)
        defer { NSFileCoordinator.removeFilePresenter(presenter) }
        let asks: [(NSFileCoordinator.WritingOptions, [String])] = [
            ([], ["written"]), (.forMoving, ["inner to writer", "written", "inner back"]),
            (.forDeleting, ["inner to writer", "inner accommodates", "written", "inner back"]),
            (.forReplacing, ["inner to writer", "inner accommodates", "written", "inner back"]),
        ]
        for (options, expected) in asks {
            let before = said.lines.count
            #expect(ends { write(directory, options) { _ in said.say("written") } })
            presenter.presentedItemOperationQueue.waitUntilAllOperationsAreFinished()
            #expect(Array(said.lines.dropFirst(before)) == expected)
        }
    }

    @Test func aReplacedItemHasChangedAndADeletedOneHasNot() {
        let (said, file) = (Said(), file)
        let presenter = Presenter(file, "item", said)
        NSFileCoordinator.addFilePresenter(presenter)
        defer { NSFileCoordinator.removeFilePresenter(presenter) }
        #expect(ends { write(file, .forReplacing) { _ in } })
        #expect(ends { write(file, .forDeleting) { _ in } })
        presenter.presentedItemOperationQueue.waitUntilAllOperationsAreFinished()
        #expect(
            said.lines == [
                "item to writer", "item accommodates", "item changed", "item back", "item to writer",
                "item accommodates", "item back",
            ])
    }

    @Test func presentersInAMovedDirectoryAreToldTheirNewPlace() throws {
        let (said, directory) = (Said(), directory)
        let presenters = [
            Presenter(directory, "directory", said), Presenter(directory.appendingPathComponent("a/b"), "inner", said),
        ]
        for presenter in presenters { NSFileCoordinator.addFilePresenter(presenter) }
        defer { for presenter in presenters { NSFileCoordinator.removeFilePresenter(presenter) } }
        // The move is told after it was made, so the directory is there no longer.
        let other = directory.deletingLastPathComponent().appendingPathComponent("other")
        NSFileCoordinator().item(at: directory, didMoveTo: other)
        for presenter in presenters { presenter.presentedItemOperationQueue.waitUntilAllOperationsAreFinished() }
        #expect(said.lines.sorted() == ["directory at other", "inner at b"])
    }

    @Test func aPathWithoutItsDirectoriesIsResolvedAsFarAsItExists() throws {
        let manager = Foundation.FileManager.default
        try manager.createDirectory(at: directory, withIntermediateDirectories: false)
        defer { try? manager.removeItem(at: directory) }
        let link = directory.appendingPathComponent("link")
        try manager.createDirectory(at: directory.appendingPathComponent("real"), withIntermediateDirectories: false)
        try manager.createSymbolicLink(atPath: link.path, withDestinationPath: "real")
        let path = FileAccess.path(of: link.appendingPathComponent("gone/inner/file"))
        #expect(path.hasSuffix("/real/gone/inner/file"))
    }

    @Test func aPreparationEndsWithItsHandler() {
        let (said, file) = (Said(), file)
        let waiting = DispatchSemaphore(value: 0)
        #expect(
            ends {
                let done = DispatchSemaphore(value: 0)
                unsafe NSFileCoordinator().prepare(
                    forReadingItemsAt: [], writingItemsAt: [file], error: nil
                ) { handler in
                    let end = Handler(call: handler)
                    Thread.detachNewThread {
                        waiting.wait()
                        Thread.sleep(forTimeInterval: 0.1)
                        said.say("ended")
                        end.call()
                        end.call()
                    }
                }
                Thread.detachNewThread {
                    waiting.signal()
                    write(file) { _ in said.say("written") }
                    done.signal()
                }
                done.wait()
            })
        #expect(said.lines == ["ended", "written"])
    }
}

/// A handler that crosses to another thread.
private struct Handler: @unchecked Sendable {
    let call: () -> Void
}
