// Reads content. The backing I/O comes first. Test, decryption and reply then form one counted section.

internal import BackingStore
internal import HostSystem
package import KeyFiles
internal import Keybag
internal import SodiumKit
package import VolumeFormat

/// The plaintext that a read has written to the caller's buffer.
///
/// For class A, it delays the lock of the volume until it is destroyed, and for class 7 the end of its time. So reply first,
/// then call `finish()`.
package struct ReadResult: ~Copyable {
    /// The position of the bytes in the buffer.
    package let range: Range<Int>
    private let counted: CountedRead?

    init(_ range: Range<Int>, counted: CountedRead?) {
        self.range = range
        self.counted = counted
    }

    deinit {
        if let counted { counted.keys.endRead(of: counted.protectionClass) }
    }

    /// Ends the read after the reply has been sent.
    package consuming func finish() {}
}

/// A read that the ring counts.
struct CountedRead: Sendable {
    let keys: KeyRing
    let protectionClass: ProtectionClass
}

extension FileContent {
    /// The buffer length for a read of `count` bytes. Both ends are decrypted as whole blocks.
    package static func bufferLength(count: Int) -> Int {
        count + 2 * PageGeometry.pageSize
    }

    /// Reads up to `count` bytes at `offset`. Returns fewer at the end of the file or above `largestRequest`.
    ///
    /// - Parameters:
    ///   - buffer: locked memory of at least `bufferLength(count:)` bytes; bytes outside of the result's range are
    ///     plaintext too.
    ///   - access: `.read` or `.copySource`, judged in the same hold of the state lock that decrypts.
    package func read(
        into buffer: inout MutableSpan<UInt8>, at offset: UInt64, count: Int, access: Operation = .read
    ) throws(VolumeError) -> ReadResult {
        try checkIdentity()
        try refresh()
        let wanted = min(count, Self.largestRequest, buffer.count - 2 * PageGeometry.pageSize)
        while true {
            let size = self.size
            guard offset < size, wanted > 0 else {
                try judge(access)
                return ReadResult(0..<0, counted: nil)
            }
            let length = Int(min(UInt64(wanted), size - offset))
            let blocks = geometry.blocks(holding: offset..<offset + UInt64(length))
            let pageCount = Int(blocks.count)
            let result: ReadResult? = try context.buffers.withBuffer(pageCount: pageCount) {
                (pages: inout CipherBuffer) throws(VolumeError) -> ReadResult? in
                let now = try holding(blocks, exclusive: false) { () throws(VolumeError) -> FileState? in
                    let now = readingState
                    guard now.size >= offset + UInt64(length) else { return nil }
                    try pages.read(blocks, of: backing)
                    return now
                }
                guard let now else { return nil }
                let counted: CountedRead?
                do throws(VolumeError) {
                    counted = try decrypt(pages, blocks, now, access, into: &buffer)
                } catch {
                    guard context.isShared, case .damaged = error else { throw error }
                    return try readAgain(into: &buffer, at: offset, wanted, access)
                }
                let skip = Int(offset - geometry.start(ofBlock: blocks.lowerBound))
                return ReadResult(skip..<skip + length, counted: counted)
            }
            // The file was cut meanwhile, so read again.
            if let result { return result }
        }
    }

    /// The counted section. Returns what the result must end.
    func decrypt(
        _ pages: borrowing CipherBuffer, _ blocks: Range<UInt64>, _ now: FileState, _ access: Operation,
        into buffer: inout MutableSpan<UInt8>
    ) throws(VolumeError) -> CountedRead? {
        let protectionClass = now.header.protectionClass
        let isCounted = try withKeys(access) { (keys: borrowing HeldKeys) throws(VolumeError) -> Bool in
            var codec = PageCodec(geometry: geometry, keys: fileKeys, header: now.header)
            var target = 0
            for (position, block) in blocks.enumerated() {
                let content = try pages.open(position, block: block, &codec, into: &buffer, at: target)
                let capacity = geometry.capacity(ofBlock: block)
                if try accept(content, block: block, in: now) { buffer.zero(target..<target + capacity) }
                target += capacity
            }
            guard protectionClass.cutsOffHandles else { return false }
            do throws(KeyError) { try keys.beginRead(of: protectionClass) } catch { throw VolumeError(error) }
            return true
        }
        return isCounted ? CountedRead(keys: context.keys, protectionClass: protectionClass) : nil
    }
}
