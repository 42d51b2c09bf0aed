// A notebook: a directory of class complete, and what a locked file means to the program.

#if canImport(FileProtection)
    import FileProtection
#else
    import Foundation
#endif

/// Notes in a directory. They can be read and written while the volume is unlocked.
public struct Notebook: Sendable {
    private let folder: URL

    /// Makes the directory if it is missing.
    public init(in folder: URL) throws {
        self.folder = folder
        try FileManager.default.createDirectory(
            at: folder, withIntermediateDirectories: true,
            attributes: [.protectionKey: FileProtectionType.complete])
    }

    /// Writes a note in class complete.
    public func write(_ text: String, to name: String) throws {
        try Data(text.utf8).write(to: folder.appendingPathComponent(name), options: [.atomic, .completeFileProtection])
    }

    /// The text of a note. A locked one throws `CocoaError.fileReadNoPermission`.
    public func read(_ name: String) throws -> String {
        String(decoding: try Data(contentsOf: folder.appendingPathComponent(name)), as: UTF8.self)
    }

    /// The notes' names, which can be listed in every state.
    public func names() throws -> [String] { try FileManager.default.contentsOfDirectory(atPath: folder.path).sorted() }
}
