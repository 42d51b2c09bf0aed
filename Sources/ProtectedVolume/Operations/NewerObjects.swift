// Reports each object that a newer version has made once.

internal import HostSystem
internal import KeyFiles
internal import VolumeFormat

/// The newer objects of a volume that were reported, by inode number. Thread-safe.
final class NewerObjects: Sendable {
    /// The limit of objects remembered. Further objects are not reported.
    private static let most = 4096

    private let inodes = Lock<Set<UInt64>>([])
    private let hand: @Sendable (VolumeNotice) -> Void

    init(report: @escaping @Sendable (VolumeNotice) -> Void) { hand = report }

    /// Reports an object, unless it was reported before.
    @Sendable func report(_ object: Damage, _ inode: UInt64) {
        let isNews = inodes.withLock { $0.count < Self.most && $0.insert(inode).inserted }
        if isNews { hand(.newer(object, inode: inode)) }
    }
}
