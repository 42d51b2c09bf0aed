// The nodes of classes A and B that may have pages in the kernel's page cache. A lock visits them all.

internal import HostSystem
internal import Synchronization
internal import VolumeFormat

/// Numbers of nodes of class A or B that may have pages. A lock takes time for these, and not for all that are known.
///
/// Kept by the nodes themselves: a node enters when it has both, whichever comes last. One that has left its class stays
/// until somebody looks.
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
    /// Whether a lock closes files of the class, at once or with their last handle.
    var closesAtLock: Bool { self == .complete || self == .completeUnlessOpen }
}

extension Node {
    /// The highest bit of `classAndPages`: the page cache may hold pages of the file.
    static let pagesBit: UInt8 = 0x80

    /// Whether the kernel's page cache may hold pages of the file.
    var mayHavePages: Bool { classAndPages.load(ordering: .acquiring) & Self.pagesBit != 0 }

    /// Pages of the file may come into the page cache from now on: a handle was opened that goes through it, or a page was
    /// read for it.
    package func notePages() {
        let before = classAndPages.load(ordering: .relaxed)
        guard before & Self.pagesBit == 0 else { return }
        let old = classAndPages.bitwiseOr(Self.pagesBit, ordering: .acquiringAndReleasing).oldValue
        if ProtectionClass(rawValue: old & ~Self.pagesBit)?.closesAtLock ?? true { nodesWithCachedPages.insert(number) }
    }

    /// All pages have been dropped, and no handle is open through which others could have come.
    package func forgetPages() {
        _ = classAndPages.bitwiseAnd(~Self.pagesBit, ordering: .acquiringAndReleasing)
        nodesWithCachedPages.remove(number)
    }

    /// The class of the file from now on: block 0 has proven it, or this mount has set it.
    func remember(class protectionClass: ProtectionClass) {
        remember(protectionClass) { _ in true }
    }

    /// A class that nothing but the file's header says. It never takes the place of a stronger one: a header that somebody has
    /// put there must not spare a file's pages from a lock.
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
        if old & Self.pagesBit != 0, protectionClass.closesAtLock { nodesWithCachedPages.insert(number) }
    }
}
