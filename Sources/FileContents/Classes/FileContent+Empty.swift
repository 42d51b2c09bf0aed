// Opens an empty file whose class is closed: it gets a new key, as a new file does.

package import BackingStore
package import KeyFiles
internal import Keybag
internal import HostSystem
package import VolumeFormat

extension FileContent {
    /// Opens an empty file of class completeUnlessOpen under a new key. The public half of the class key is enough for that,
    /// so it works in every state. The file keeps its ID, its class and its time of modification.
    ///
    /// The new page 0 is durable when this returns, so that nothing under the new key comes before it. After a power cut
    /// the file is empty under the old key or under the new one.
    ///
    /// - Parameters:
    ///   - status: of the backing file, which was just opened.
    ///   - isExpected: whether the header agrees with what is known of the file. Nothing is changed otherwise.
    /// - Returns: nil if the file is of another class, or not certainly empty. A closed class lets nobody verify block 0, so
    ///   length and field must both say so, and no crash may have left the page.
    package static func openEmpty(
        in context: ContentContext, backing: BackingFile, _ status: Status,
        where isExpected: (FileHeader) -> Bool = { _ in true }
    ) throws(VolumeError) -> FileContent? {
        guard !context.isShared, !context.isReadOnly, status.size == UInt64(PageGeometry.pageSize),
            let old = try emptyHeader(in: context, backing, length: status.size), isExpected(old)
        else { return nil }
        var flags = old.flags
        flags.remove(.keyExposed)
        let made = try newFile(in: context, class: old.protectionClass, flags: flags, fileID: old.fileID, .create)
        let header = made.header
        let content = FileContent(
            context: context, backing: backing, inode: status.inode,
            keys: FileKeys(made.takeKey(), suite: header.suite),
            state: FileState(header: header, size: 0, pageZero: .pending))
        do throws(VolumeError) {
            try content.prepareToModify(.other)
            try content.holding(0..<1, exclusive: true) { () throws(VolumeError) in
                try content.times.preserving(isNews: true) { () throws(VolumeError) in
                    try content.rewriteHeader(.other) { (_, _) in }
                }
                try content.synchronizeBacking(dataOnly: false)
            }
        } catch {
            // What has become of page 0 is not known.
            context.epochs.keepOpen()
            content.wipeKeys()
            throw error
        }
        return content
    }

    /// The header of an empty file of class completeUnlessOpen that this version may change; nil for any other file.
    private static func emptyHeader(
        in context: ContentContext, _ backing: BackingFile, length: UInt64
    ) throws(VolumeError) -> FileHeader? {
        try context.buffers.withBuffer(pageCount: 1) {
            (buffer: inout CipherBuffer) throws(VolumeError) -> FileHeader? in
            guard let header = try context.firstPage(of: backing, length: length, into: &buffer),
                header.protectionClass == .completeUnlessOpen, !header.flags.areReadableOnly
            else { return nil }
            let page = buffer.pages.span.extracting(0..<PageGeometry.pageSize)
            let geometry = context.geometry
            let start = geometry.fieldRange(ofBlock: 0).lowerBound
            guard let field = try? BlockField(parsing: page, at: start, capacity: geometry.firstCapacity),
                field.isLast, field.payloadLength == 0, !context.epochs.isTolerated(field.epoch)
            else { return nil }
            return header
        }
    }
}
