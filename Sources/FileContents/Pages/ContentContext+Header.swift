// The header of a stored file: its MAC, and what only a newer version knows.

internal import BackingStore
internal import HostSystem
internal import KeyFiles
internal import Keybag
internal import SodiumKit
internal import VolumeFormat

extension ContentContext {
    /// Reads page 0 and checks its header; nil if rule R0 applies and an epoch ended badly.
    ///
    /// The rule comes after the header of a file that is shorter than a page: if that verifies, a newer version may have made
    /// the file so.
    func firstPage(
        of backing: BackingFile, length: UInt64, into buffer: inout CipherBuffer
    ) throws(VolumeError) -> FileHeader? {
        var count = 0
        if length >= UInt64(FileHeader.length) {
            var all = buffer.pages.mutableSpan
            var page = all._mutatingExtracting(0..<PageGeometry.pageSize)
            do throws(Errno) { count = try backing.read(into: &page, at: 0) } catch { throw .store(error) }
        }
        let page = buffer.pages.span.extracting(0..<PageGeometry.pageSize)
        guard count == PageGeometry.pageSize, !page.isAllZero else {
            if count >= FileHeader.length, count < PageGeometry.pageSize, isNewer(header: page) {
                throw newer(backing)
            }
            guard epochs.toleratesAny else { throw .damaged(.missingHeader) }
            return nil
        }
        let expected = keys.metadata.headerMAC(over: page.extracting(FileHeader.authenticated))
        guard constantTimeEqual(expected.span, page.extracting(FileHeader.macRange)) else {
            throw .damaged(.header)
        }
        let header: FileHeader
        do throws(FormatError) { header = try FileHeader(parsing: page) } catch { throw newer(backing) }
        let isUnknownKey = keys.withState { (keys: borrowing HeldKeys) in
            keys.isMissing(generation: header.keyGeneration, of: header.protectionClass)
        }
        guard header.suite == geometry.suite, !isUnknownKey else { throw newer(backing) }
        return header
    }

    /// Whether the header at the start of a short file verifies, and does not allow this version to change the file.
    private func isNewer(header bytes: Span<UInt8>) -> Bool {
        let expected = keys.metadata.headerMAC(over: bytes.extracting(FileHeader.authenticated))
        guard constantTimeEqual(expected.span, bytes.extracting(FileHeader.macRange)) else { return false }
        guard let header = try? FileHeader(parsing: bytes), header.suite == geometry.suite else { return true }
        return header.flags.areReadableOnly
            || keys.withState { (keys: borrowing HeldKeys) in
                keys.isMissing(generation: header.keyGeneration, of: header.protectionClass)
            }
    }

    private func newer(_ backing: BackingFile) -> VolumeError {
        if let status = try? backing.status() { reportNewer(.header, status.inode) }
        return .newer(.header)
    }
}
