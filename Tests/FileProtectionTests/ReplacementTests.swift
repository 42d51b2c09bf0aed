// Tests replacements outside every mount, and what is known of the file that is replaced.

import CLibrary
import Testing

@testable import FileProtection

@Suite struct ReplacementTests {
    /// Root may read every file, so the file is removed here instead of closed.
    @Test func aClassThatCannotBeReadIsNotAMissingOne() throws {
        try withPlace { place in
            let path = place.appendingPathComponent("file").path
            try Data().write(to: URL(fileURLWithPath: path))
            let file = try #require(ExistingFile(path))
            #expect(try file.type == nil)
            #expect(unsafe unlink(path) == 0)
            #expect(throws: ProtectionSystemError(code: ENOENT, call: "getxattr")) { try file.type }
        }
    }

    @Test func aTreeWithEveryKindOfEntryIsFlushedAndReplaced() throws {
        try withPlace { place in
            let (old, new) = (place.appendingPathComponent("old"), place.appendingPathComponent("new"))
            let manager = Foundation.FileManager.default
            for (tree, text) in [(old, "old"), (new, "new")] {
                try manager.createDirectory(
                    at: tree.appendingPathComponent("inner"), withIntermediateDirectories: true)
                try Data(text.utf8).write(to: tree.appendingPathComponent("inner/file"))
            }
            // A flush must not wait for a writer of a pipe, and must not follow a link.
            #expect(unsafe mkfifo(new.appendingPathComponent("pipe").path, 0o600) == 0)
            #expect(unsafe symlink("missing", new.appendingPathComponent("link").path) == 0)
            #expect(unsafe chmod(new.appendingPathComponent("inner/file").path, 0o200) == 0)
            _ = try FileManager().replaceItemAt(old, withItemAt: new)
            #expect(unsafe chmod(old.appendingPathComponent("inner/file").path, 0o600) == 0)
            #expect(try Data(contentsOf: old.appendingPathComponent("inner/file")) == Data("new".utf8))
            #expect(!manager.fileExists(atPath: new.path))
        }
    }

    @Test func whatCannotBeFlushedIsNotMoved() throws {
        try withPlace { place in
            let missing = place.appendingPathComponent("missing").path
            let error = #expect(throws: CocoaError.self) { try Durability.flush(missing) }
            #expect(error?.code == .fileNoSuchFile)
        }
    }
}
