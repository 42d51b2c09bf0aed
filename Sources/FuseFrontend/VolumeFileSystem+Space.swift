// Writes on a store that is nearly full: write(2) says so, and not only close(2).

internal import BackingStore
internal import FuseBridge
internal import HostSystem
internal import KeyFiles
internal import ProtectedVolume
internal import VolumeFormat

/// While `StoreSpace.isShort`:
/// - A file that is opened for writing gets direct I/O, so each write(2) has the store's answer.
/// - Files that are open already keep their cached handles, because a handle's kind cannot be changed. The kernel asks for
///   the attributes of such a file before each buffered write, since their time is 0, and returns an error of the answer
///   from write(2). The answer waits until what was written before is in the store. If the store has refused it, the answer
///   is that error. So at most one write of each writer is ahead of the store.
extension VolumeFileSystem {
    /// How long a write may wait for the data before it.
    private static let writePatience: UInt64 = 10_000_000_000

    /// The free bytes of the store; nil if it tells no number.
    static func freeBytes(of volume: Volume) -> UInt64? {
        guard let found = try? volume.statistics(), found.blocks > 0 else { return nil }
        return found.blocksAvailable.multipliedReportingOverflow(by: max(1, found.fragmentSize)).partialValue
    }

    /// Whether a handle that is opened for writing now must bypass the page cache.
    ///
    /// Before Linux 6.6 direct handles cannot be mapped shared, and a direct write does not write back the page that another
    /// handle has made dirty, which would later cover the write. So there it must be a handle that cannot be mapped, of a
    /// file that nobody writes through the cache.
    func writesThrough(_ node: Node, isWriteOnly: Bool) -> Bool {
        guard !isShared else { return false }
        if space.look() { becomeShort() }
        guard space.isShort else { return false }
        if calls.allowsDirectMapping { return true }
        return isWriteOnly && files.file(node.number)?.hasCachedWriter != true
    }

    /// Called after the store has taken data.
    func stored(_ count: Int) {
        if space.wrote(count) { becomeShort() }
    }

    /// Called after the store has refused data.
    func spaceRefused(_ error: VolumeError, _ file: OpenFile) {
        if space.refused(file.node.number, error.errno) { becomeShort() }
    }

    /// Makes the kernel ask before each buffered write from now on.
    private func becomeShort() {
        log("the store is nearly full or has refused data for lack of space: writes go to the store at once")
        for file in files.all where file.hasCachedWriter { calls.invalidateAttributes(file.node.number) }
    }

    /// Whether attributes of a file may not be kept, so that the kernel asks before each buffered write.
    func mustAskBeforeWrite(_ node: Node) -> Bool {
        space.isShort && node.kind == .file && files.file(node.number)?.hasCachedWriter ?? false
    }

    /// Whether a request for attributes comes from a handle that writes to the cache, perhaps before such a write.
    func isBeforeWrite(_ node: Node, _ handle: HandleInfo, _ request: borrowing Request) -> Bool {
        Handle(number: handle.handle).isCachedWritable && mustAskBeforeWrite(node) && !calls.isOwn(request.process)
    }

    /// Answers a request for attributes when the data written before is in the store, or says why it is not.
    func answerBeforeWrite(_ node: Node, _ process: Int32, _ reply: consuming Reply) {
        _ = space.look()
        if let refusal = space.refusal(of: node.number) { return reply.error(refusal) }
        guard Flusher.isLockFree else { return answerAttributes(node, process, reply) }
        let parked = ParkedReply(reply)
        calls.flusher.flush(node, until: monotonicNanoseconds() + Self.writePatience) { [self] isFlushed in
            if let refusal = space.refusal(of: node.number) { parked.take()?.error(refusal) }
            if isFlushed {
                if let reply = parked.take() { answerAttributes(node, process, reply) }
                return
            }
            // The flusher's thread may do no I/O now.
            readers.add { [self] _ in
                if let reply = parked.take() { answerAttributes(node, process, reply) }
                return 0
            }
        }
    }

    /// Answers with the attributes.
    func answerAttributes(_ node: Node, _ process: Int32, _ reply: consuming Reply) {
        do throws(VolumeError) {
            reply.attributes(shown(try volume.attributes(of: node), of: node), timeout: attributeTimeout(node))
        } catch {
            reply.error(refusal(error, node.number, of: process, "use"))
        }
    }
}
