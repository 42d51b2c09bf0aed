// Remembers the true size of files whose backing length disagrees with their last block, after a crash or an outside change.

internal import HostSystem

/// What opens of files have found, by inode. Thread-safe: its lock guards the table, and is held for a look only.
///
/// The backing file is not changed, so that a file that is only read keeps its crash evidence.
final class TrueSizes: Sendable {
    private struct Found {
        /// The backing file's length that gave another size; `.max` if it does not count any more.
        var length: UInt64
        /// The size according to the last block.
        let size: UInt64
        /// Nodes from this serial number on had the true size from the beginning.
        let firstTruthful: UInt64
    }

    private let sizes = Lock<[InodeKey: Found]>([:])

    /// Remembers a size that the backing file's length does not give.
    /// - Parameter serial: the serial number of the next node. Earlier ones may have shown another size.
    func remember(_ size: UInt64, of key: InodeKey, backingLength: UInt64, before serial: UInt64) {
        sizes.withLock { $0[key] = Found(length: backingLength, size: size, firstTruthful: serial) }
    }

    /// Compares what is remembered with a file that was just opened.
    /// - Parameter isTold: whether the backing file's length gives this size.
    func compare(_ size: UInt64, of key: InodeKey, backingLength: UInt64, isTold: Bool, before serial: UInt64) {
        sizes.withLock { sizes in
            let known = sizes[key].flatMap { $0.length == backingLength ? $0.size : nil }
            if isTold {
                // What is remembered is of an earlier content. The kernel may have got it.
                guard let known, known != size else { return }
                sizes[key] = Found(length: .max, size: size, firstTruthful: serial)
            } else if known != size {
                sizes[key] = Found(length: backingLength, size: size, firstTruthful: serial)
            }
        }
    }

    /// Forgets the remembered size of a file that is about to close with another one.
    func settle(_ size: UInt64, of key: InodeKey) {
        sizes.withLock { sizes in
            guard let known = sizes[key], known.size != size else { return }
            sizes[key]?.length = .max
        }
    }

    /// Forgets a file that nothing opens again.
    func forget(_ key: InodeKey) { sizes.withLock { _ = $0.removeValue(forKey: key) } }

    /// The size of a file that is not open, if its backing length is known to give a wrong one.
    func size(of key: InodeKey, backingLength: UInt64) -> UInt64? {
        sizes.withLock { sizes in
            guard let known = sizes[key], known.length == backingLength else { return nil }
            return known.size
        }
    }

    /// Whether the kernel got a wrong size for the node. It keeps the size of an inode that it knows, so it must look the name
    /// up again and make another inode. ESTALE from an open causes that, unnoticed by the program. The kernel does so once: the
    /// second look must not find the same node.
    func wereWrong(for node: Node) -> Bool {
        sizes.withLock { sizes in
            sizes[node.key].map { node.serial < $0.firstTruthful } ?? false
        }
    }
}
