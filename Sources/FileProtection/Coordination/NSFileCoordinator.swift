// Coordinated access to files, within one process. Foundation on Linux lacks these names.

/// Where a call puts its error (Apple's `NSErrorPointer`). It is a pointer, because programs write `error: &error`.
public typealias NSErrorPointer = UnsafeMutablePointer<NSError?>?

/// Coordinates reading and writing of files among the objects of one process (Apple's `NSFileCoordinator`).
///
/// An access waits for other coordinated accesses of the same item if one of the two writes. A write `forDeleting`,
/// `forMoving` or `forReplacing` and the accesses of what is in that directory wait for each other, too; with other
/// options an access of a directory is not one of what is in it. Packages are directories here. Accesses of one
/// coordinator do not wait for each other, and what a presenter does through its own coordinator while it is asked goes
/// first. Other processes are not excluded. A locked file is not waited for: the accessor runs, and its read or write
/// throws 257 or 513.
open class NSFileCoordinator: NSObject, @unchecked Sendable {
    /// How an access reads.
    public struct ReadingOptions: OptionSet, Sendable {
        /// The options as bits.
        public let rawValue: UInt
        /// Makes options from bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// Presenters are not asked to save first.
        public static let withoutChanges = ReadingOptions(rawValue: 1 << 0)
        /// The accessor gets the target of a link.
        public static let resolvesSymbolicLink = ReadingOptions(rawValue: 1 << 1)
        /// Has no effect: no file is fetched from elsewhere.
        public static let immediatelyAvailableMetadataOnly = ReadingOptions(rawValue: 1 << 2)
        /// Has no effect but that of reading.
        public static let forUploading = ReadingOptions(rawValue: 1 << 3)
    }

    /// How an access writes.
    public struct WritingOptions: OptionSet, Sendable {
        /// The options as bits.
        public let rawValue: UInt
        /// Makes options from bits.
        public init(rawValue: UInt) { self.rawValue = rawValue }
        /// The item is deleted. Its presenters, and those of what is in it, are asked to accommodate that.
        public static let forDeleting = WritingOptions(rawValue: 1 << 0)
        /// The item is moved.
        public static let forMoving = WritingOptions(rawValue: 1 << 1)
        /// The item is written in parts. Its presenters save first.
        public static let forMerging = WritingOptions(rawValue: 1 << 2)
        /// The item is replaced as a whole. Presenters are asked as for `forDeleting`.
        public static let forReplacing = WritingOptions(rawValue: 1 << 3)
        /// Only attributes are written, which do not depend on the content.
        public static let contentIndependentMetadataOnly = WritingOptions(rawValue: 1 << 4)
    }

    /// Adds a presenter. The process keeps it until it is removed.
    open class func addFilePresenter(_ filePresenter: any NSFilePresenter) { FilePresenters.shared.add(filePresenter) }

    /// Removes a presenter.
    open class func removeFilePresenter(_ filePresenter: any NSFilePresenter) {
        FilePresenters.shared.remove(filePresenter)
    }

    /// The presenters of this process.
    open class var filePresenters: [any NSFilePresenter] { FilePresenters.shared.all }

    /// Accesses of coordinators with one identifier do not wait for each other.
    open var purposeIdentifier = UUID().uuidString

    private weak var presenter: (any NSFilePresenter)?
    private let flag = CancelFlag()

    /// Makes a coordinator. Its accesses do not ask its own presenter.
    public init(filePresenter: (any NSFilePresenter)? = nil) {
        presenter = filePresenter
        super.init()
    }

    /// Waits for the item and runs the accessor, in this thread.
    open func coordinate(
        readingItemAt url: URL, options: ReadingOptions = [], error: NSErrorPointer, byAccessor reader: (URL) -> Void
    ) {
        let item = Item(url, reading: options)
        unsafe access([item], error) { reader(item.place) }
    }

    /// Waits for the item and runs the accessor, in this thread.
    open func coordinate(
        writingItemAt url: URL, options: WritingOptions = [], error: NSErrorPointer, byAccessor writer: (URL) -> Void
    ) {
        let item = Item(url, writing: options)
        unsafe access([item], error) { writer(item.place) }
    }

    /// Waits for both items and runs the accessor, in this thread.
    open func coordinate(
        readingItemAt readingURL: URL, options readingOptions: ReadingOptions = [], writingItemAt writingURL: URL,
        options writingOptions: WritingOptions = [], error: NSErrorPointer, byAccessor readerWriter: (URL, URL) -> Void
    ) {
        let items = [Item(readingURL, reading: readingOptions), Item(writingURL, writing: writingOptions)]
        unsafe access(items, error) { readerWriter(items[0].place, items[1].place) }
    }

    /// Waits for both items and runs the accessor, in this thread.
    open func coordinate(
        writingItemAt url1: URL, options options1: WritingOptions = [], writingItemAt url2: URL,
        options options2: WritingOptions = [], error: NSErrorPointer, byAccessor writer: (URL, URL) -> Void
    ) {
        let items = [Item(url1, writing: options1), Item(url2, writing: options2)]
        unsafe access(items, error) { writer(items[0].place, items[1].place) }
    }

    /// Waits for all items once, for many accesses with this coordinator. They begin in the accessor. The coordination ends
    /// when the accessor's handler is called, in any thread, so the accessor must have it called.
    open func prepare(
        forReadingItemsAt readingURLs: [URL], options readingOptions: ReadingOptions = [],
        writingItemsAt writingURLs: [URL], options writingOptions: WritingOptions = [], error: NSErrorPointer,
        byAccessor batchAccessor: (@escaping () -> Void) -> Void
    ) {
        let reading = readingURLs.map { Item($0, reading: readingOptions) }
        let writing = writingURLs.map { Item($0, writing: writingOptions) }
        do {
            let access = try begin(reading + writing)
            batchAccessor { access.end() }
        } catch let failure {
            unsafe error?.pointee = failure as NSError
        }
    }

    /// Waits for the items in the background and runs the accessor on a queue.
    open func coordinate(
        with intents: [NSFileAccessIntent], queue: OperationQueue,
        byAccessor accessor: @escaping @Sendable ((any Error)?) -> Void
    ) {
        let items = intents.map(\.item)
        Thread.detachNewThread { [self] in
            let failure = access(items) {
                queue.addOperations([BlockOperation { accessor(nil) }], waitUntilFinished: true)
            }
            if let failure { queue.addOperation { accessor(failure) } }
        }
    }

    /// Ends accesses of this coordinator that are waiting, with `CocoaError` 3072. Later ones end at once.
    open func cancel() {
        flag.set()
        FileAccesses.shared.wake()
    }

    /// Says that the item will be moved. Presenters are told after the move.
    open func item(at oldURL: URL, willMoveTo newURL: URL) {}

    /// Tells the presenters of an item, and those of what is in it, where it is now.
    open func item(at oldURL: URL, didMoveTo newURL: URL) {
        let path = FileAccess.path(of: oldURL)
        for (presenter, relation, shown) in FilePresenters.shared.of(path, but: presenter) {
            let place: URL
            switch relation {
            case .item: place = newURL
            case .inside: place = newURL.appendingPathComponent(String(shown.dropFirst(path.count + 1)))
            case .around: continue
            }
            let box = PresenterBox(presenter: presenter)
            presenter.presentedItemOperationQueue.addOperation { box.presenter.presentedItemDidMove(to: place) }
        }
    }

    private func access(_ items: [Item], _ error: NSErrorPointer, _ body: () -> Void) {
        if let failure = access(items, body) { unsafe error?.pointee = failure as NSError }
    }

    private func access(_ items: [Item], _ body: () -> Void) -> (any Error)? {
        do {
            let access = try begin(items)
            body()
            access.end()
            return nil
        } catch {
            return error
        }
    }

    /// Waits for the items and asks their presenters. The caller ends the access.
    private func begin(_ items: [Item]) throws -> RunningAccess {
        let (accesses, flag) = (FileAccesses.shared, flag)
        let wanted = items.map { FileAccess($0) }
        let own = presenter
        let identity = own.map { ObjectIdentifier($0) }
        let number = accesses.begin(wanted, purpose: purposeIdentifier, presenter: identity) { flag.isSet }
        guard let number else { throw CocoaError(.userCancelled) }
        var asked: [AskedPresenter] = []
        for (item, access) in zip(items, wanted) {
            for found in FilePresenters.shared.of(access.path, but: own) {
                let one = AskedPresenter(found, of: item, cancelledBy: flag)
                asked.append(one)
                guard one.isAsked else { continue }
                var failure: (any Error)?
                accesses.asking(one.presenter, for: number, isCancelled: { flag.isSet }) { failure = one.ask() }
                if failure == nil, flag.isSet { failure = CocoaError(.userCancelled) }
                if let failure {
                    RunningAccess(number, asked).end(tells: false)
                    throw failure
                }
            }
        }
        return RunningAccess(number, asked)
    }
}

/// An access that has begun.
private final class RunningAccess: @unchecked Sendable {
    private let number: UInt64
    // The lock guards the list, which the end takes.
    private let lock = NSLock()
    private var asked: [AskedPresenter]?

    init(_ number: UInt64, _ asked: [AskedPresenter]) { (self.number, self.asked) = (number, asked) }

    /// Lets the presenters and the other accesses go on. A second call has no effect.
    func end(tells: Bool = true) {
        let asked = lock.withLock {
            defer { self.asked = nil }
            return self.asked
        }
        guard let asked else { return }
        if tells { for one in asked { one.tellOfChange() } }
        for one in asked.reversed() { one.reacquire() }
        FileAccesses.shared.end(number)
    }
}

/// One item that a coordinator is to wait for (Apple's `NSFileAccessIntent`).
open class NSFileAccessIntent: NSObject, @unchecked Sendable {
    let item: Item

    init(_ item: Item) { self.item = item }

    /// The place to read or write in the accessor.
    open var url: URL { item.place }

    /// An item to read.
    open class func readingIntent(
        with url: URL, options: NSFileCoordinator.ReadingOptions = []
    ) -> NSFileAccessIntent { NSFileAccessIntent(Item(url, reading: options)) }

    /// An item to write.
    open class func writingIntent(
        with url: URL, options: NSFileCoordinator.WritingOptions = []
    ) -> NSFileAccessIntent { NSFileAccessIntent(Item(url, writing: options)) }
}

/// An item with the way in which it is accessed.
struct Item: Sendable {
    let place: URL
    let isWriting: Bool
    let isDeleting: Bool
    /// Whether what is there is deleted or replaced, so that its presenters must accommodate that.
    let isRemoving: Bool
    /// Whether the access is also one of everything in the item.
    let isOfContents: Bool
    /// Whether presenters save before the access.
    let isSaved: Bool

    init(_ url: URL, reading options: NSFileCoordinator.ReadingOptions) {
        place = options.contains(.resolvesSymbolicLink) ? url.resolvingSymlinksInPath() : url
        (isWriting, isDeleting, isRemoving, isOfContents) = (false, false, false, false)
        isSaved = !options.contains(.withoutChanges)
    }

    init(_ url: URL, writing options: NSFileCoordinator.WritingOptions) {
        place = url
        (isWriting, isDeleting) = (true, options.contains(.forDeleting))
        isRemoving = isDeleting || options.contains(.forReplacing)
        isOfContents = isRemoving || options.contains(.forMoving)
        isSaved = options.contains(.forMerging) || options.contains(.forMoving)
    }
}
