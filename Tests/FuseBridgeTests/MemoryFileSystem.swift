// A tiny file system in memory: one flat directory of files, enough to drive the bridge through a real mount.

import FuseBridge
import HostSystem

final class MemoryFileSystem: FileSystem {
    struct File {
        var name: [UInt8]
        var data: [UInt8] = []
        var mode: UInt32 = 0o100644
        var attributes: [[UInt8]: [UInt8]] = [:]
    }
    struct State: Sendable {
        var files: [NodeID: File] = [:]
        var next: NodeID = 2
        var lookups: [NodeID: Int] = [:]
        var writePages = 0
        var directWrites = 0
        var getXattrs = 0
        var opendirs = 0
        var reads = 0
    }
    let state = Lock(State())
    let directIO: Bool

    /// Takes the replies to lookups of names that begin with "parked".
    let park: (@Sendable (consuming Reply) -> Void)?

    init(directIO: Bool = false, park: (@Sendable (consuming Reply) -> Void)? = nil) {
        self.directIO = directIO
        self.park = park
    }

    var connection: RequestedCapabilities { RequestedCapabilities() }

    private func attributes(_ node: NodeID, _ state: State) -> Attributes? {
        var result = Attributes()
        result.inode = node
        if node == rootNodeID {
            result.mode = 0o040755
            result.links = 2
            return result
        }
        guard let file = state.files[node] else { return nil }
        result.mode = file.mode
        result.size = Int64(file.data.count)
        result.blocks = Int64((file.data.count + 511) / 512)
        return result
    }

    private func entry(_ node: NodeID, _ state: inout State) -> Entry? {
        guard let attributes = attributes(node, state) else { return nil }
        state.lookups[node, default: 0] += 1
        return Entry(node: node, generation: 0, attributes: attributes, attributeTimeout: 3600, entryTimeout: 3600)
    }

    func lookup(_ request: borrowing Request, parent: NodeID, name: Span<UInt8>, _ reply: consuming Reply) {
        let bytes = copy(name)
        if let park, bytes.starts(with: "parked".utf8) { return park(reply) }
        let found = state.withLock { state -> Entry? in
            guard let node = state.files.first(where: { $0.value.name == bytes })?.key else { return nil }
            return entry(node, &state)
        }
        guard let found else { return reply.error(2) }
        _ = reply.entry(found)
    }

    func forget(_ node: NodeID, count: UInt64) {
        state.withLock { $0.lookups[node, default: 0] -= Int(count) }
    }

    func getAttributes(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo?, _ reply: consuming Reply
    ) {
        guard let found = state.withLock({ attributes(node, $0) }) else { return reply.error(2) }
        reply.attributes(found, timeout: 3600)
    }

    func setAttributes(
        _ request: borrowing Request, node: NodeID, _ changes: AttributeChanges, handle: HandleInfo?,
        _ reply: consuming Reply
    ) {
        let found = state.withLock { state -> Attributes? in
            if let size = changes.size, let count = state.files[node]?.data.count {
                if Int(size) < count {
                    state.files[node]?.data.removeLast(count - Int(size))
                } else {
                    state.files[node]?.data += [UInt8](repeating: 0, count: Int(size) - count)
                }
            }
            if let mode = changes.mode { state.files[node]?.mode = mode }
            return attributes(node, state)
        }
        guard let found else { return reply.error(2) }
        reply.attributes(found, timeout: 3600)
    }

    func create(
        _ request: borrowing Request, parent: NodeID, name: Span<UInt8>, mode: UInt32, flags: Int32,
        _ reply: consuming Reply
    ) {
        let bytes = copy(name)
        let made = state.withLock { state -> Entry? in
            let node = state.next
            state.next += 1
            state.files[node] = File(name: bytes, mode: mode & ~0o022)
            return entry(node, &state)
        }
        guard let made else { return reply.error(5) }
        _ = reply.created(made, OpenReply(handle: made.node, directIO: directIO, keepCache: true))
    }

    func open(_ request: borrowing Request, node: NodeID, flags: Int32, _ reply: consuming Reply) {
        _ = reply.opened(OpenReply(handle: node, directIO: directIO, keepCache: true))
    }

    func read(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, offset: UInt64, count: Int,
        buffer: inout MutableSpan<UInt8>, _ reply: consuming Reply
    ) {
        let length = state.withLock { state -> Int in
            state.reads += 1
            guard let data = state.files[node]?.data, offset < data.count else { return 0 }
            let end = min(data.count, Int(offset) + count)
            for index in Int(offset)..<end { buffer[index - Int(offset)] = data[index] }
            return end - Int(offset)
        }
        reply.data(buffer.span.extracting(0..<length))
    }

    func write(
        _ request: borrowing Request, node: NodeID, handle: HandleInfo, offset: UInt64, data: Span<UInt8>,
        _ reply: consuming Reply
    ) {
        let bytes = copy(data)
        state.withLock { state in
            if handle.isWritePage { state.writePages += 1 } else { state.directWrites += 1 }
            guard var file = state.files[node] else { return }
            state.files[node] = nil
            let end = Int(offset) + bytes.count
            if file.data.count < end { file.data += [UInt8](repeating: 0, count: end - file.data.count) }
            file.data.replaceSubrange(Int(offset)..<end, with: bytes)
            state.files[node] = file
        }
        reply.written(bytes.count)
    }

    func release(_ request: borrowing Request, node: NodeID, handle: HandleInfo, _ reply: consuming Reply) {
        reply.success()
    }

    func opendir(_ request: borrowing Request, node: NodeID, flags: Int32, _ reply: consuming Reply) {
        state.withLock { $0.opendirs += 1 }
        reply.error(38)
    }

    func readdir(
        _ request: borrowing Request, node: NodeID, handle: UInt64, offset: Int64,
        buffer: inout DirectoryBuffer, _ reply: consuming Reply
    ) {
        let files = state.withLock { $0.files }.sorted { $0.key < $1.key }
        for (node, file) in files where Int64(node) > offset {
            guard buffer.hasRoom(nameLength: file.name.count) else { break }
            guard let entry = state.withLock({ entry(node, &$0) }) else { continue }
            buffer.append(name: file.name, entry: entry, next: Int64(node))
        }
        _ = reply.directory(buffer)
    }

    func unlink(_ request: borrowing Request, parent: NodeID, name: Span<UInt8>, _ reply: consuming Reply) {
        let bytes = copy(name)
        state.withLock { state in
            guard let node = state.files.first(where: { $0.value.name == bytes })?.key else { return }
            state.files[node] = nil
        }
        reply.success()
    }

    func getXattr(
        _ request: borrowing Request, node: NodeID, name: Span<UInt8>, size: Int, buffer: inout MutableSpan<UInt8>,
        _ reply: consuming Reply
    ) {
        let bytes = copy(name)
        let value = state.withLock { state in
            state.getXattrs += 1
            return state.files[node]?.attributes[bytes]
        }
        guard let value else { return reply.error(61) }
        if size == 0 { return reply.attributeSize(value.count) }
        reply.data(value)
    }

    func setXattr(
        _ request: borrowing Request, node: NodeID, name: Span<UInt8>, value: Span<UInt8>, flags: Int32,
        _ reply: consuming Reply
    ) {
        let (name, value) = (copy(name), copy(value))
        state.withLock { $0.files[node]?.attributes[name] = value }
        reply.success()
    }

    func statfs(_ request: borrowing Request, node: NodeID, _ reply: consuming Reply) {
        var status = FileSystemStatus()
        status.blocks = 4711
        reply.status(status)
    }

    func mkdir(
        _ request: borrowing Request, parent: NodeID, name: Span<UInt8>, mode: UInt32, _ reply: consuming Reply
    ) {
        // Deliberately unanswered: the reply's deinit has to answer EIO.
    }
}

func copy(_ span: Span<UInt8>) -> [UInt8] {
    span.indices.map { span[$0] }
}
