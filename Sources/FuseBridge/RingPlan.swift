// Whether a mount uses io_uring, and how many workers it has then.

internal import CLibrary
internal import HostSystem

/// The ways in which requests reach a mount.
package enum Transport: String, Sendable {
    /// read(2) and write(2) of /dev/fuse.
    case device = "dev_fuse"
    /// Queues of io_uring, one for each processor (Linux 6.14).
    case ring = "io_uring"
}

/// The numbers of a mount over io_uring.
package struct RingPlan: Sendable, Equatable {
    /// One for each possible processor: the kernel uses none before all have an entry.
    package let queues: Int
    /// The most workers of a queue, those with parked requests left out. Each starts with one.
    package let workersPerQueue: Int
    /// The most bytes of one READ or WRITE.
    package let dataCapacity: Int
    /// Whether as much memory may be locked as there is.
    package let isUnlimited: Bool

    /// A queue has at least two workers when it is busy, so that one that waits does not stop it.
    private static let leastWorkers = 2
    private static let leastCapacity = 1 << 16
    /// The most queues. More would cost a mount more threads than it has use for.
    private static let mostQueues = 512

    /// Nil if the buffers do not fit into the lockable memory, even with small requests.
    /// - Parameters:
    ///   - processors: the possible ones, also those that are not there now.
    ///   - workers: of a mount without io_uring.
    ///   - lockable: bytes that the buffers may lock.
    package init?(processors: Int, workers: Int, dataCapacity: Int, lockable: UInt64) {
        guard processors > 0, processors <= Self.mostQueues else { return nil }
        var capacity = max(dataCapacity, Self.leastCapacity)
        while true {
            // The worker's own buffer and its entry's.
            let one = WorkerBuffer.size(dataCapacity: capacity) + RingEntry.size(dataCapacity: capacity)
            let fitting = lockable / UInt64(one) / UInt64(processors)
            if fitting >= Self.leastWorkers {
                workersPerQueue = min(max(workers, Self.leastWorkers), Int(clamping: fitting))
                break
            }
            guard capacity > Self.leastCapacity else { return nil }
            capacity = max(capacity / 2, Self.leastCapacity)
        }
        queues = processors
        isUnlimited = lockable == .max
        self.dataCapacity = capacity
    }

    /// The kernel's switch. It is off unless an administrator has changed it.
    package static let kernelSwitch = "/sys/module/fuse/parameters/enable_uring"

    /// What the kernel's switch says. Nil if the kernel has none, as before Linux 6.14.
    package static var kernelAllows: Bool? {
        guard let text = try? readFile(HostPath(kernelSwitch)) else { return nil }
        return text.first == UInt8(ascii: "Y")
    }

    /// The number of possible processors. Nil if the kernel does not say it.
    package static var possibleProcessors: Int? {
        guard let list = try? readFile(HostPath("/sys/devices/system/cpu/possible")) else { return nil }
        return count(of: String(decoding: list.prefix { $0 != UInt8(ascii: "\n") }, as: UTF8.self))
    }

    /// The number of possible processors, from the kernel's list, such as "0-3,8". Nil if it is malformed.
    static func count(of list: String) -> Int? {
        var count = 0
        for part in list.split(separator: ",", omittingEmptySubsequences: false) {
            let ends = part.split(separator: "-", omittingEmptySubsequences: false).map { UInt16($0) }
            guard let first = ends.first ?? nil, let last = ends.last ?? nil, ends.count <= 2, first <= last else {
                return nil
            }
            count += Int(last - first) + 1
        }
        return count
    }
}
