// The state that all open files of one mounted volume share.

package import KeyFiles
package import Keybag
package import SodiumKit
internal import Synchronization
package import VolumeFormat

/// The keys, epochs, buffers and rules that the contents of a mounted volume use.
package final class ContentContext: Sendable {
    /// Class keys and the state of the lock.
    package let keys: KeyRing
    /// This mount's epochs.
    package let epochs: EpochLog
    /// Offset arithmetic of the volume's suite.
    package let geometry: PageGeometry
    /// How the volume was opened.
    package let options: VolumeOptions
    /// Whether every cut needs an `fdatasync`. Network and FUSE file systems do not keep the order of a cut and later
    /// writes.
    package let cutNeedsSync: Bool
    /// Receives the crash evidence that was found and tolerated.
    package let report: @Sendable (CrashEvidence) -> Void
    /// Receives the objects that a newer version has made, each time that one is refused, with the inode number.
    let reportNewer: @Sendable (Damage, UInt64) -> Void
    /// The versions of files that this machine has seen. Nil without a state file, and if other machines write, too.
    package let seen: SeenVersions?
    /// Receives the inode number of each file that is opened and is older than this machine has seen it.
    let reportOlder: @Sendable (UInt64) -> Void

    /// The longest file, in blocks, that is mended completely before its first modification after a crash. Longer files
    /// have only their ends mended then, and the middle later (`FileContent.mendSome`).
    let mendAtOnce: UInt64
    /// The number of blocks mended in one hold.
    let mendStep: UInt64
    /// In a file without HOLES, mending seals at most this many pages without data in the store as zeros.
    let mostSealedHoles: UInt64
    /// The files whose middle waits to be mended.
    package let mending = MendingLog()
    /// The keys of copies that are being made, and of files that are being opened.
    package let looseKeys = LooseKeys()
    /// The buffers of requests.
    package let buffers = CipherBufferPool()

    let waitingThreads = WaitingThreads()
    let scratch: BufferPool
    /// The number of threads that wait for a lock in the store.
    let storeWaits = Atomic<Int>(0)

    /// The context of a mount.
    package init(
        keys: KeyRing, epochs: EpochLog, options: VolumeOptions = VolumeOptions(), cutNeedsSync: Bool = false,
        mendAtOnce: UInt64 = 256, mendStep: UInt64 = 128, mostSealedHoles: UInt64 = 4096,
        scratch: BufferPool = .shared,
        seen: SeenVersions? = nil,
        report: @escaping @Sendable (CrashEvidence) -> Void = { _ in },
        reportNewer: @escaping @Sendable (Damage, UInt64) -> Void = { _, _ in },
        reportOlder: @escaping @Sendable (UInt64) -> Void = { _ in }
    ) {
        self.keys = keys
        self.epochs = epochs
        self.options = options
        self.cutNeedsSync = cutNeedsSync
        self.report = report
        self.reportNewer = reportNewer
        self.seen = seen
        self.reportOlder = reportOlder
        self.scratch = scratch
        // If other machines write too, an epoch that one of them has closed proves nothing.
        self.mendAtOnce = options.isShared ? .max : mendAtOnce
        self.mendStep = mendStep
        self.mostSealedHoles = mostSealedHoles
        geometry = PageGeometry(suite: keys.suite)
    }

    /// Whether the backing store must not be written.
    var isReadOnly: Bool { options.isReadOnly }

    /// Whether other machines may change the backing files meanwhile (`-o shared`), see `FileContent+Shared.swift`. If not, the
    /// kernel keeps the modification times of files that it caches and sends their changes, so its write-back must not move them.
    var isShared: Bool { options.isShared }

    /// Computes and sets a header's MAC.
    func authenticate(_ header: inout FileHeader) {
        header.mac = mac(of: header)
    }

    /// The MAC that a header must carry.
    func mac(of header: FileHeader) -> InlineArray<16, UInt8> {
        var bytes = InlineArray<128, UInt8>(repeating: 0)
        var raw = bytes.mutableSpan
        header.store(into: &raw)
        return keys.metadata.headerMAC(over: bytes.span.extracting(FileHeader.authenticated))
    }
}
