// The nodes of classes A, B and 7 that may have pages in the kernel's page cache. A lock visits them all.

internal import HostSystem
internal import Synchronization
internal import VolumeFormat

/// Numbers of nodes of class A, B or 7 that may have cached pages. A lock visits only these nodes.
///
/// A node adds itself as soon as it has such a class and pages. A node that has left these classes stays in the set until the
/// next visit.
final class NodesWithCachedPages: Sendable {
    private let numbers = Lock<Set<UInt64>>([])

    func insert(_ number: UInt64) {
        numbers.withLock { _ = $0.insert(number) }
    }

    func remove(_ number: UInt64) {
        numbers.withLock { _ = $0.remove(number) }
    }

    var all: [UInt64] { numbers.withLock { Array($0) } }
}

extension ProtectionClass {
    /// Whether a lock takes away the key of the class: at once, after the last handle, or after a time.
    var closesAfterLock: Bool { self == .complete || self == .completeUnlessOpen || self == .completeWhenUserInactive }
}

extension Node {
    /// The highest bit of `classAndPages`: the page cache may hold pages of the file.
    static let pagesBit: UInt8 = 0x80

    /// Whether the kernel's page cache may hold pages of the file.
    package var mayHavePages: Bool { classAndPages.load(ordering: .acquiring) & Self.pagesBit != 0 }

    /// Notes that the page cache may hold pages of the file from now on. A cached handle was opened, or a page was read for
    /// the cache.
    package func notePages() {
        let before = classAndPages.load(ordering: .relaxed)
        guard before & Self.pagesBit == 0 else { return }
        let old = classAndPages.bitwiseOr(Self.pagesBit, ordering: .acquiringAndReleasing).oldValue
        if ProtectionClass(rawValue: old & ~Self.pagesBit)?.closesAfterLock ?? true {
            nodesWithCachedPages.insert(number)
        }
    }

    /// Notes that all pages have been dropped, and that no open handle could have brought in others.
    package func forgetPages() {
        _ = classAndPages.bitwiseAnd(~Self.pagesBit, ordering: .acquiringAndReleasing)
        nodesWithCachedPages.remove(number)
    }

    /// Sets the class of the file. Block 0 has proven it, or this mount has set it.
    func remember(class protectionClass: ProtectionClass) {
        remember(protectionClass) { _ in true }
    }

    /// Sets a class that only the file's header claims. It never replaces a stronger one: a forged header must not keep a
    /// file's pages through a lock.
    func remember(claimed protectionClass: ProtectionClass) {
        remember(protectionClass) { known in known.map { protectionClass.isStronger(than: $0) } ?? true }
    }

    private func remember(_ protectionClass: ProtectionClass, where isBetter: (ProtectionClass?) -> Bool) {
        var old = classAndPages.load(ordering: .relaxed)
        while true {
            guard isBetter(ProtectionClass(rawValue: old & ~Self.pagesBit)) else { return }
            let result = classAndPages.compareExchange(
                expected: old, desired: old & Self.pagesBit | protectionClass.rawValue, ordering: .acquiringAndReleasing
            )
            if result.exchanged { break }
            old = result.original
        }
        if old & Self.pagesBit != 0, protectionClass.closesAfterLock { nodesWithCachedPages.insert(number) }
    }
}
