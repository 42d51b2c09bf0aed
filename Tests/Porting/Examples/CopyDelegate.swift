// A delegate of a file manager: Foundation on Linux has no optional methods, so that it has all of them.

import FileProtection

/// It refuses items named "refused", and continues after errors. The protocol requires the full name of Foundation's
/// class.
final class CopyDelegate: FileManagerDelegate, @unchecked Sendable {
    var said: [String] = []

    private func asked(_ name: String) -> Bool {
        said.append("\(name)?")
        return name != "refused"
    }

    private func failed(_ name: String, _ error: any Error) -> Bool {
        said.append("\(name) \((error as NSError).code)")
        return true
    }

    func fileManager(_ manager: Foundation.FileManager, shouldCopyItemAt source: URL, to target: URL) -> Bool {
        asked(source.lastPathComponent)
    }
    func fileManager(_ manager: Foundation.FileManager, shouldCopyItemAtPath source: String, toPath target: String)
        -> Bool
    {
        asked("path " + source)
    }
    func fileManager(
        _ manager: Foundation.FileManager, shouldProceedAfterError error: any Error, copyingItemAt source: URL,
        to target: URL
    ) -> Bool { failed(source.lastPathComponent, error) }
    func fileManager(
        _ manager: Foundation.FileManager, shouldProceedAfterError error: any Error, copyingItemAtPath source: String,
        toPath target: String
    ) -> Bool { failed("path " + source, error) }

    func fileManager(_ manager: Foundation.FileManager, shouldMoveItemAt source: URL, to target: URL) -> Bool {
        asked(source.lastPathComponent)
    }
    func fileManager(_ manager: Foundation.FileManager, shouldMoveItemAtPath source: String, toPath target: String)
        -> Bool
    {
        asked("path " + source)
    }
    func fileManager(
        _ manager: Foundation.FileManager, shouldProceedAfterError error: any Error, movingItemAt source: URL,
        to target: URL
    ) -> Bool { failed(source.lastPathComponent, error) }
    func fileManager(
        _ manager: Foundation.FileManager, shouldProceedAfterError error: any Error, movingItemAtPath source: String,
        toPath target: String
    ) -> Bool { failed("path " + source, error) }

    func fileManager(_ manager: Foundation.FileManager, shouldLinkItemAt source: URL, to target: URL) -> Bool {
        asked(source.lastPathComponent)
    }
    func fileManager(_ manager: Foundation.FileManager, shouldLinkItemAtPath source: String, toPath target: String)
        -> Bool
    {
        asked("path " + source)
    }
    func fileManager(
        _ manager: Foundation.FileManager, shouldProceedAfterError error: any Error, linkingItemAt source: URL,
        to target: URL
    ) -> Bool { failed(source.lastPathComponent, error) }
    func fileManager(
        _ manager: Foundation.FileManager, shouldProceedAfterError error: any Error, linkingItemAtPath source: String,
        toPath target: String
    ) -> Bool { failed("path " + source, error) }

    func fileManager(_ manager: Foundation.FileManager, shouldRemoveItemAt url: URL) -> Bool {
        asked(url.lastPathComponent)
    }
    func fileManager(_ manager: Foundation.FileManager, shouldRemoveItemAtPath path: String) -> Bool {
        asked("path " + path)
    }
    func fileManager(
        _ manager: Foundation.FileManager, shouldProceedAfterError error: any Error, removingItemAt url: URL
    ) -> Bool { failed(url.lastPathComponent, error) }
    func fileManager(
        _ manager: Foundation.FileManager, shouldProceedAfterError error: any Error, removingItemAtPath path: String
    ) -> Bool { failed("path " + path, error) }
}
