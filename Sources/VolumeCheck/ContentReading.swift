// Reads one file's content in parts, so that several workers can share a long file. What they find is kept by part and
// reported in order by the worker that has the file.

internal import BackingStore
internal import FileContents
internal import HostSystem
internal import KeyFiles
internal import Keybag
internal import ProtectedVolume
internal import SodiumKit
internal import VolumeFormat

/// The content of one file while it is read. Thread-safe. Only the worker that has the file reports anything.
final class ContentReading: Sendable {
    /// The blocks of a part: 4 MiB of the store. Parts begin with whole blocks, so that none is in two of them.
    private static let partBlocks: UInt64 = 1024
    /// The blocks of one read, within `FileContent.largestRequest`.
    private static let readBlocks: UInt64 = 256
    /// The limit of blocks reported for one file.
    static let mostBlocks = 64

    /// A block that does not verify.
    struct Place: Sendable {
        let error: VolumeError
        let block: UInt64
    }

    /// What was found in one part.
    private struct Part: Sendable {
        var places: [Place] = []
        /// Blocks that are damaged, or that the store does not read.
        var errors = 0
        /// An error that ended the reading.
        var failure: VolumeError?
    }

    private struct State: Sendable {
        /// The block where the next part begins.
        var next: UInt64 = 0
        var readers = 0
        /// Parts in which something was found, by their first block. At most `mostBlocks` errors are in all but the last of them.
        var parts: [UInt64: Part] = [:]
        /// Whether a part was left out.
        var isCutShort = false
        /// The progress that was counted.
        var advanced: UInt64 = 0

        /// Whether the parts before a block have all errors that are reported, or an error that ended the reading.
        func isFull(before block: UInt64) -> Bool {
            let earlier = parts.filter { $0.key < block }.values
            return earlier.contains { $0.failure != nil } || earlier.reduce(0) { $0 + $1.errors } >= mostBlocks
        }
    }

    let content: FileContent
    private let paths: ObjectPaths
    private let size: UInt64
    private let blocks: UInt64
    private let state = Lock(State())
    private let changed = Condition()

    init(_ content: FileContent, behind paths: ObjectPaths) {
        self.content = content
        self.paths = paths
        size = content.size
        blocks = content.geometry.blocks(holding: 0..<size).upperBound
    }

    /// The place behind the file in the order of the walk.
    var place: WalkPlace { .behind(paths.wholeBacking) }

    /// Whether other workers can help.
    var isLong: Bool { blocks > 2 * Self.partBlocks }

    /// Reads parts until none is left that must be read.
    func read(for check: Check) {
        guard begin() else { return }
        defer { end() }
        var buffer: LockedBuffer
        do throws(SodiumError) {
            buffer = try BufferPool.shared.take(
                atLeast: FileContent.bufferLength(count: FileContent.largestRequest))
        } catch {
            return fail(.store(.ENOMEM))
        }
        while let start = take() {
            var part = Part()
            let isWhole = read(start, into: &part, &buffer, check)
            state.withLock { state in
                if !part.places.isEmpty || part.failure != nil { state.parts[start] = part }
                if !isWhole { state.isCutShort = true }
                // Those behind the reported ones are not needed.
                while state.parts.count > 1, let last = state.parts.keys.max(), state.isFull(before: last) {
                    state.parts[last] = nil
                }
            }
        }
    }

    /// Waits until no worker reads the content any more.
    /// - Returns: what was found, in order; the error that ended the reading; and whether all of it was read.
    func finish() -> (places: [Place], failure: VolumeError?, isWhole: Bool, advanced: UInt64) {
        state.wait(on: changed) { state in
            guard state.readers == 0 else { return nil }
            var places: [Place] = []
            var errors = 0
            for (_, part) in state.parts.sorted(by: { $0.key < $1.key }) where errors < Self.mostBlocks {
                places += part.places
                errors += part.errors
                if let failure = part.failure { return (places, failure, false, state.advanced) }
            }
            return (places, nil, !state.isCutShort, state.advanced)
        } ?? ([], nil, false, 0)
    }

    private func begin() -> Bool {
        state.withLock { state in
            if state.next >= blocks { return false }
            state.readers += 1
            return true
        }
    }

    private func end() {
        state.withLock { $0.readers -= 1 }
        changed.broadcast()
    }

    private func fail(_ error: VolumeError) {
        state.withLock { state in
            state.parts[state.next] = Part(failure: error)
            state.isCutShort = true
        }
    }

    /// The start of the next part. Nil if no other part must be read.
    private func take() -> UInt64? {
        state.withLock { state -> UInt64? in
            if state.next >= blocks { return nil }
            if state.isFull(before: state.next) {
                state.isCutShort = true
                return nil
            }
            defer { state.next += Self.partBlocks }
            return state.next
        }
    }

    // MARK: one part

    /// False if some of it was not read.
    private func read(_ first: UInt64, into part: inout Part, _ buffer: inout LockedBuffer, _ check: Check) -> Bool {
        let geometry = content.geometry
        let last = min(first + Self.partBlocks, blocks)
        var block = first
        while block < last {
            guard check.mayGoOn() else { return false }
            let data = min(content.skippingHoles(from: block, isNext: block == first), last)
            if data > block {
                advance(min(geometry.start(ofBlock: data), size) - geometry.start(ofBlock: block), check)
                block = data
                continue
            }
            let next = min(block + Self.readBlocks, last)
            let offset = geometry.start(ofBlock: block)
            let length = min(geometry.start(ofBlock: next), size) - offset
            do throws(VolumeError) {
                guard try verify(at: offset, Int(length), &buffer) == Int(length) else { return false }
                advance(length, check)
                check.count(bytes: length)
            } catch {
                guard Check.isOfContent(error) || error == .newer(.block) else {
                    part.failure = error
                    return false
                }
                locate(block..<next, into: &part, &buffer)
                if part.errors >= Self.mostBlocks { return false }
            }
            block = next
        }
        return true
    }

    private func advance(_ count: UInt64, _ check: Check) {
        check.advance(count)
        state.withLock { $0.advanced += count }
    }

    /// Checks one by one the blocks of a read that does not verify.
    private func locate(_ blocks: Range<UInt64>, into part: inout Part, _ buffer: inout LockedBuffer) {
        for block in blocks {
            let offset = content.geometry.start(ofBlock: block)
            do throws(VolumeError) {
                _ = try verify(at: offset, content.geometry.capacity(ofBlock: block), &buffer)
            } catch {
                let isError = if case .newer = error { false } else { true }
                if isError, part.errors >= Self.mostBlocks { continue }
                part.places.append(Place(error: error, block: block))
                if isError { part.errors += 1 }
            }
        }
    }

    private func verify(
        at offset: UInt64, _ count: Int, _ buffer: inout LockedBuffer
    ) throws(VolumeError) -> Int {
        try buffer.withMutableBytes(count: FileContent.bufferLength(count: count)) {
            (bytes: inout MutableSpan<UInt8>) throws(VolumeError) in
            let result = try content.read(into: &bytes, at: offset, count: count)
            let read = result.range.count
            result.finish()
            return read
        }
    }
}
