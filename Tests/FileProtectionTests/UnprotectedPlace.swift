// A place for tests that is on no protected mount.

import FileProtection

/// A directory of its own, on no protected mount.
func withPlace(_ body: (URL) throws -> Void) throws {
    let place = Foundation.FileManager.default.temporaryDirectory.appendingPathComponent(UUID().uuidString)
    try Foundation.FileManager.default.createDirectory(at: place, withIntermediateDirectories: true)
    defer { try? Foundation.FileManager.default.removeItem(at: place) }
    try body(place)
}
