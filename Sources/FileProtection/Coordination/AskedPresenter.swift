// One presenter during one access of another object: it is asked before, and told after.

/// A presenter that crosses to its own queue, where alone it is used.
struct PresenterBox: @unchecked Sendable {
    let presenter: any NSFilePresenter
}

/// Whether a coordinator was cancelled.
final class CancelFlag: @unchecked Sendable {
    // The lock guards both fields.
    private let lock = NSLock()
    private var value = false
    private var waiting: [DispatchSemaphore] = []

    var isSet: Bool { lock.withLock { value } }

    func set() {
        let waiting = lock.withLock {
            value = true
            return self.waiting
        }
        for semaphore in waiting { semaphore.signal() }
    }

    /// Waits for a signal, or until the flag is set.
    func wait(for semaphore: DispatchSemaphore) {
        let isSet = lock.withLock {
            waiting.append(semaphore)
            return value
        }
        if !isSet { semaphore.wait() }
        lock.withLock { waiting.removeAll { $0 === semaphore } }
    }
}

/// The presenter, asked for one item.
final class AskedPresenter {
    let presenter: ObjectIdentifier
    private let box: PresenterBox
    private let queue: OperationQueue
    private let item: Item
    private let relation: FilePresenters.Relation
    private let flag: CancelFlag
    private let answer: Answer

    init(_ found: FilePresenters.Found, of item: Item, cancelledBy flag: CancelFlag) {
        presenter = ObjectIdentifier(found.presenter)
        box = PresenterBox(presenter: found.presenter)
        queue = found.presenter.presentedItemOperationQueue
        (self.item, relation, self.flag) = (item, found.relation, flag)
        answer = Answer(on: queue)
    }

    /// Whether the presenter is asked. A presenter of a directory is told of changes in it. One of something in a
    /// directory is concerned if that is deleted, moved or replaced.
    var isAsked: Bool {
        switch relation {
        case .item: true
        case .inside: item.isOfContents
        case .around: false
        }
    }

    /// Waits until the presenter lets the access go on; its error if it does not, or 3072 if the access was cancelled.
    func ask() -> (any Error)? {
        let (box, answer, isWriting) = (box, answer, item.isWriting)
        wait { done in
            let given: @Sendable ((@Sendable () -> Void)?) -> Void = { reacquirer in
                answer.relinquished(reacquirer)
                done()
            }
            if isWriting {
                box.presenter.relinquishPresentedItem(toWriter: given)
            } else {
                box.presenter.relinquishPresentedItem(toReader: given)
            }
        }
        guard !flag.isSet else { return CocoaError(.userCancelled) }
        let failed: @Sendable ((any Error)?) -> Void = { answer.failure = $0 }
        if item.isRemoving {
            wait { done in
                box.presenter.accommodatePresentedItemDeletion {
                    failed($0)
                    done()
                }
            }
        } else if item.isSaved {
            wait { done in
                box.presenter.savePresentedItemChanges {
                    failed($0)
                    done()
                }
            }
        }
        return flag.isSet ? CocoaError(.userCancelled) : answer.failure
    }

    /// Lets the presenter use its item again.
    func reacquire() { answer.reacquire() }

    /// Tells the presenter that the item was written.
    func tellOfChange() {
        guard item.isWriting, !item.isDeleting else { return }
        let (box, url) = (box, item.place)
        switch relation {
        case .item: queue.addOperation { box.presenter.presentedItemDidChange() }
        case .around: queue.addOperation { box.presenter.presentedSubitemDidChange(at: url) }
        case .inside: break
        }
    }

    /// Runs a call on the presenter's queue and waits until it calls its handler, or the access is cancelled.
    private func wait(for call: @escaping @Sendable (@escaping @Sendable () -> Void) -> Void) {
        let semaphore = DispatchSemaphore(value: 0)
        queue.addOperation { call { semaphore.signal() } }
        flag.wait(for: semaphore)
    }

    /// What a presenter answers, on its own queue.
    private final class Answer: @unchecked Sendable {
        private let queue: OperationQueue
        // The lock guards the fields below.
        private let lock = NSLock()
        private var reacquirer: (@Sendable () -> Void)?
        private var stored: (any Error)?
        private var hasEnded = false

        init(on queue: OperationQueue) { self.queue = queue }

        var failure: (any Error)? {
            get { lock.withLock { stored } }
            set { lock.withLock { stored = newValue } }
        }

        /// A presenter that answers after the access was cancelled reacquires at once.
        func relinquished(_ reacquirer: (@Sendable () -> Void)?) {
            let hasEnded = lock.withLock {
                if !self.hasEnded { self.reacquirer = reacquirer }
                return self.hasEnded
            }
            if hasEnded, let reacquirer { queue.addOperation { reacquirer() } }
        }

        func reacquire() {
            let reacquirer = lock.withLock {
                hasEnded = true
                defer { self.reacquirer = nil }
                return self.reacquirer
            }
            if let reacquirer { queue.addOperation { reacquirer() } }
        }
    }
}
