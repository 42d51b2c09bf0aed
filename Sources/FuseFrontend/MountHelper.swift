// The thread that makes calls on our own mount, which no worker may do.

internal import HostSystem
internal import Keybag
internal import ProtectedVolume
internal import Synchronization
internal import VolumeFormat

/// Makes calls on the mount, in order. Each may wait for a program that holds an inode's lock, so callers give a deadline; the
/// call continues after it. A file without a name cannot be reached.
final class MountHelper: Sendable {
    private let volume: Volume
    private let mount = Lock<MountClient?>(nil)
    private let queue = JobQueue(name: "pfs-helper")
    private let thread = Atomic<Int32>(0)

    init(_ volume: Volume) {
        self.volume = volume
        queue.add { [self] in thread.store(BackgroundThread.currentNumber, ordering: .relaxed) }
    }

    /// From here on the mount can be called.
    func begin(_ mount: MountClient) { self.mount.withLock { $0 = mount } }

    /// Called when the mount has ended. Waits for the running call.
    func end() {
        queue.stop()
        mount.withLock { $0 = nil }
    }

    /// Whether requests of this thread come from the helper.
    func isHelper(_ thread: Int32) -> Bool { thread == self.thread.load(ordering: .relaxed) }

    /// Queues `job`.
    func add(_ job: @escaping @Sendable () -> Void) { queue.add(job) }

    /// Queues `job` and waits until it is done. False if `deadline` passes first.
    func perform(until deadline: UInt64, _ job: @escaping @Sendable () -> Void) -> Bool {
        queue.perform(until: deadline, job)
    }

    /// Gives `body` the mount and the path of `node`. Nil if it cannot be reached. Call it only in a job.
    @discardableResult
    func reach<Result>(_ node: Node, _ body: (MountClient, [[UInt8]]) -> Result) -> Result? {
        guard let mount = mount.withLock({ $0 }), let path = volume.path(of: node) else { return nil }
        return body(mount, path)
    }

    /// Waits until the helper does not use the mount.
    func settle(until deadline: UInt64) { _ = perform(until: deadline) {} }

    /// Waits for running writers of `nodes`.
    func touch(_ nodes: [Node], until deadline: UInt64) {
        _ = perform(until: deadline) { [self] in
            for node in nodes where monotonicNanoseconds() < deadline { reach(node) { $0.touch($1) } }
        }
    }

    /// Opens and closes the file, which clears the error that the kernel keeps of it. False if that is not known to have
    /// happened by `deadline`.
    func openAndClose(_ node: Node, until deadline: UInt64) -> Bool {
        let isDone = Atomic(false)
        let isOver = perform(until: deadline) { [self] in
            isDone.store(reach(node) { $0.openAndClose($1) } ?? false, ordering: .releasing)
        }
        return isOver && isDone.load(ordering: .acquiring)
    }

    /// Makes the kernel ask for the attributes of `nodes`, after the work that is queued before it. If `deadline` passes, the
    /// rest runs in the background with the helper's other work.
    func look(at nodes: [Node], until deadline: UInt64) {
        var rest = nodes[...]
        repeat {
            let part = rest.prefix(64)
            rest = rest.dropFirst(64)
            let isDone = perform(until: deadline) { [self] in look(part) }
            if !isDone {
                while !rest.isEmpty {
                    let part = rest.prefix(64)
                    rest = rest.dropFirst(64)
                    add { [self] in look(part) }
                }
            }
        } while !rest.isEmpty
        _ = perform(until: deadline) { [self] in mount.withLock { $0 }?.touch([]) }
    }

    private func look(_ nodes: ArraySlice<Node>) {
        guard volume.keys.state.isLocked else { return }
        for node in nodes { reach(node) { $0.look($1) } }
    }
}
