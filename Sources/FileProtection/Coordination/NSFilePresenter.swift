// Objects that show a file or directory and are asked before others use it. Foundation on Linux lacks these names.

/// An object that shows a file or directory, such as a document (Apple's `NSFilePresenter`).
///
/// Every method is called on `presentedItemOperationQueue`, before or after a coordinated access of this process by
/// another presenter or by none. All have an implementation that does nothing. A method with a completion handler must
/// call it, because the access waits for it.
public protocol NSFilePresenter: AnyObject {
    /// The item. Nil while there is none.
    var presentedItemURL: URL? { get }
    /// The queue of all calls. The access must not run on it.
    var presentedItemOperationQueue: OperationQueue { get }

    /// Before another object reads. The handler is called with what is to run after that, or with nil.
    func relinquishPresentedItem(toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void)
    /// Before another object writes. The handler is called with what is to run after that, or with nil.
    func relinquishPresentedItem(toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void)
    /// Before another object reads or writes: write what is not saved. An error ends that access.
    func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void)
    /// Before the item is deleted or replaced, or a directory that it is in. An error ends the access that would do it.
    func accommodatePresentedItemDeletion(completionHandler: @escaping @Sendable ((any Error)?) -> Void)
    /// After the item was moved, or a directory that it is in.
    func presentedItemDidMove(to newURL: URL)
    /// After another object wrote the item.
    func presentedItemDidChange()
    /// After another object wrote something in the directory that is presented.
    func presentedSubitemDidChange(at url: URL)
}

extension NSFilePresenter {
    /// Lets the reader read.
    public func relinquishPresentedItem(toReader reader: @escaping @Sendable ((@Sendable () -> Void)?) -> Void) {
        reader(nil)
    }

    /// Lets the writer write.
    public func relinquishPresentedItem(toWriter writer: @escaping @Sendable ((@Sendable () -> Void)?) -> Void) {
        writer(nil)
    }

    /// Has nothing to save.
    public func savePresentedItemChanges(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        completionHandler(nil)
    }

    /// Lets the item be deleted.
    public func accommodatePresentedItemDeletion(completionHandler: @escaping @Sendable ((any Error)?) -> Void) {
        completionHandler(nil)
    }

    /// Does nothing.
    public func presentedItemDidMove(to newURL: URL) {}
    /// Does nothing.
    public func presentedItemDidChange() {}
    /// Does nothing.
    public func presentedSubitemDidChange(at url: URL) {}
}

/// The presenters of this process.
final class FilePresenters: @unchecked Sendable {
    static let shared = FilePresenters()

    // The lock guards the list.
    private let lock = NSLock()
    private var list: [any NSFilePresenter] = []

    var all: [any NSFilePresenter] { lock.withLock { list } }

    func add(_ presenter: any NSFilePresenter) {
        lock.withLock { if !list.contains(where: { $0 === presenter }) { list.append(presenter) } }
    }

    func remove(_ presenter: any NSFilePresenter) { lock.withLock { list.removeAll { $0 === presenter } } }

    /// What a presenter shows, seen from an item.
    enum Relation {
        case item
        /// Something in the item.
        case inside
        /// A directory that contains the item.
        case around
    }

    /// A presenter, with the path of what it shows.
    typealias Found = (presenter: any NSFilePresenter, relation: Relation, shown: String)

    /// The presenters of an item, of what is in it, and of directories that contain it; never the one that accesses it.
    func of(_ path: String, but own: (any NSFilePresenter)?) -> [Found] {
        all.compactMap { presenter in
            guard presenter !== own, let shown = presenter.presentedItemURL.map({ FileAccess.path(of: $0) }) else {
                return nil
            }
            if shown == path { return (presenter, .item, shown) }
            if FileAccess.contains(shown, path) { return (presenter, .around, shown) }
            return FileAccess.contains(path, shown) ? (presenter, .inside, shown) : nil
        }
    }
}
