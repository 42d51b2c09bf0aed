// Example 4: a download goes on while the device is locked, in a file that was opened before.

import FileProtection

final class BackgroundDownload {
    private let handle: FileHandle

    init(savingTo url: URL) throws {
        let isCreated = FileManager.default.createFile(
            atPath: url.path,
            contents: nil,
            attributes: [.protectionKey: FileProtectionType.completeUnlessOpen]
        )
        guard isCreated else { throw CocoaError(.fileWriteUnknown) }
        handle = try FileHandle(forWritingTo: url)
    }

    func received(_ part: Data) throws {
        try handle.write(contentsOf: part)
    }

    func finish() throws {
        try handle.synchronize()
        try handle.close()
    }
}
