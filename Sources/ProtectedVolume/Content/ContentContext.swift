// What all open files of one mounted volume share.

package import Keybag
package import SodiumKit
package import VolumeFormat

/// Keys, epochs, buffers and rules of one mounted volume, as its files' contents need them.
package final class ContentContext: Sendable {
    /// Class keys and the state of the lock.
    package let keys: KeyRing
    /// This mount's epochs.
    package let epochs: EpochLog
    /// Offset arithmetic of the volume's suite.
    package let geometry: PageGeometry
    /// How the volume was opened.
    package let options: VolumeOptions
    /// Whether the backing store keeps no order between a cut and what is written after it (network and FUSE file
    /// systems), so that every cut needs an `fdatasync`.
    package let cutNeedsSync: Bool
    /// Takes what was found and tolerated.
    package let report: @Sendable (CrashEvidence) -> Void

    /// Blocks up to which a file that a crash has left is mended whole before its first modification. Of longer ones the
    /// ends are, and the middle later (`FileContent.mendSome`).
    let mendAtOnce: UInt64
    /// Blocks that are mended in one hold.
    let mendStep: UInt64
    /// Pages that the store holds no data for, in a file without HOLES, up to which mending seals them as zeros.
    let mostSealedHoles: UInt64
    /// Files whose middle waits.
    package let mending = MendingLog()

    let buffers = CipherBufferPool()
    let waitingThreads = WaitingThreads()
    let scratch: BufferPool

    /// The context of a mount.
    package init(
        keys: KeyRing, epochs: EpochLog, options: VolumeOptions = VolumeOptions(), cutNeedsSync: Bool = false,
        mendAtOnce: UInt64 = 256, mendStep: UInt64 = 128, mostSealedHoles: UInt64 = 4096,
        scratch: BufferPool = .shared,
        report: @escaping @Sendable (CrashEvidence) -> Void = { _ in }
    ) {
        self.keys = keys
        self.epochs = epochs
        self.options = options
        self.cutNeedsSync = cutNeedsSync
        self.report = report
        self.scratch = scratch
        // Where other machines write as well, an epoch that one of them has closed says nothing.
        self.mendAtOnce = options.isShared ? .max : mendAtOnce
        self.mendStep = mendStep
        self.mostSealedHoles = mostSealedHoles
        geometry = PageGeometry(suite: keys.suite)
    }

    /// Whether nothing may be written below.
    var isReadOnly: Bool { options.isReadOnly }

    /// Whether other machines may change the backing files meanwhile (`-o shared`). If not, the kernel keeps the
    /// modification times of files that it caches and sends their changes, so its write-back must not move them.
    var isShared: Bool { options.isShared }

    /// Puts a header's MAC in.
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
