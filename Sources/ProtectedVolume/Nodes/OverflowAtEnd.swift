// Keeps the attributes of an object without a name as long as a program has it open.

internal import HostSystem
internal import VolumeFormat

/// An overflow object that is removed with the last reference to this, which the node of its owner has: when the kernel forgets
/// the owner.
final class OverflowAtEnd: Sendable {
    private let id: Lock<ObjectID?>
    private let overflow: OverflowObjects

    init(_ id: ObjectID, _ overflow: OverflowObjects) {
        self.id = Lock(id)
        self.overflow = overflow
    }

    /// Keeps the object: its owner has got a name, or another overflow object.
    func keep() { id.withLock { $0 = nil } }

    deinit {
        if let id = id.withLock({ $0 }) { overflow.remove(id) }
    }
}
