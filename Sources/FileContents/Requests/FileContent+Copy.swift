// Copying a range from one file to another inside of the volume.

package import KeyFiles
package import SodiumKit
internal import VolumeFormat

extension FileContent {
    /// Copies a range, for copy_file_range(2). The source's read rule and the destination's write rule apply. The
    /// destination keeps its class.
    ///
    /// - Returns: the number of bytes copied. It is smaller at the end of the source, or if an error came after a first
    ///   part.
    package static func copy(
        from source: FileContent, at offset: UInt64, to target: FileContent, at position: UInt64, count: UInt64
    ) throws(VolumeError) -> UInt64 {
        try source.checkIdentity()
        try source.judge(.copySource)
        try target.judge(.copyDestination)
        var done: UInt64 = 0
        while done < count {
            let step = Int(min(count - done, UInt64(largestRequest)))
            do throws(VolumeError) {
                let copied = try copyStep(from: source, at: offset + done, to: target, at: position + done, step)
                if copied == 0 { break }
                done += UInt64(copied)
            } catch {
                if done > 0 { break }
                throw error
            }
        }
        return done
    }

    private static func copyStep(
        from source: FileContent, at offset: UInt64, to target: FileContent, at position: UInt64, _ count: Int
    ) throws(VolumeError) -> Int {
        let length = bufferLength(count: count)
        var buffer = try largeBuffer(length, in: source.context)
        return try buffer.withMutableBytes(count: length) {
            (bytes: inout MutableSpan<UInt8>) throws(VolumeError) -> Int in
            let result = try source.read(into: &bytes, at: offset, count: count, access: .copySource)
            let range = result.range
            guard !range.isEmpty else { return 0 }
            try target.write(bytes.span.extracting(range), at: position, access: .copyDestination)
            result.finish()
            return range.count
        }
    }

    /// A large buffer of the pool, whatever the `length`.
    package static func largeBuffer(_ length: Int, in context: ContentContext) throws(VolumeError) -> LockedBuffer {
        do throws(SodiumError) {
            // Never takes a small buffer, because writing takes one while this is held.
            return try context.scratch.take(atLeast: max(length, BufferPool.smallCapacity + 1))
        } catch { throw VolumeError(error) }
    }
}
