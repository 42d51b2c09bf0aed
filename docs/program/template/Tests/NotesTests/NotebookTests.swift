// Swift Testing does not export Foundation, as XCTest does: so the classes work in tests, too.

import Notes
import Testing

#if canImport(FileProtection)
    import FileProtection
#else
    import Foundation
#endif

/// `NOTES_FOLDER` is a directory on a protected mount.
@Suite(.enabled(if: ProcessInfo.processInfo.environment["NOTES_FOLDER"] != nil))
struct NotebookTests {
    private let folder = URL(fileURLWithPath: ProcessInfo.processInfo.environment["NOTES_FOLDER"] ?? "/")
        .appendingPathComponent(UUID().uuidString)

    @Test func whatIsWrittenIsRead() throws {
        let notebook = try Notebook(in: folder)
        try notebook.write("milk", to: "shopping")
        #expect(try notebook.read("shopping") == "milk")
        #expect(try notebook.names() == ["shopping"])
    }

    @Test func notesAreComplete() throws {
        let notebook = try Notebook(in: folder)
        try notebook.write("milk", to: "shopping")
        let path = folder.appendingPathComponent("shopping").path
        let attributes = try FileManager.default.attributesOfItem(atPath: path)
        #expect(attributes[.protectionKey] as? FileProtectionType == .complete)
    }
}
