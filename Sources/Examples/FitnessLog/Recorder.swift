// A log of class complete that also grows while the volume is locked, by segments of class complete unless open beside
// it.

import FileProtection

/// Records samples, and merges them into the log when the log can be opened. A folder has only one recorder.
actor Recorder {
    private struct Log: Codable {
        var samples: [String] = []
        /// The segments of the last merge. They may still exist, and must not be merged twice.
        var merged: Set<String> = []
    }

    private let segments: URL
    private let log: URL
    private var segment: FileHandle?

    init(in folder: URL) throws {
        segments = folder.appendingPathComponent("segments")
        log = folder.appendingPathComponent("log.json")
        try FileManager.default.createDirectory(
            at: segments, withIntermediateDirectories: true,
            attributes: [.protectionKey: FileProtectionType.completeUnlessOpen])
    }

    /// Records a sample. Works in every state of the volume.
    func add(_ sample: String) throws {
        let handle = try segment ?? newSegment()
        segment = handle
        try handle.write(contentsOf: Data((sample + "\n").utf8))
    }

    /// Makes a segment. While the volume is locked, a file of class complete unless open can be made but not opened
    /// again, so the recorder keeps the handle that makes the file. The class comes from the folder. The name begins
    /// with the time, for the order.
    private func newSegment() throws -> FileHandle {
        let name = String(format: "%017.6f-", Date().timeIntervalSince1970) + UUID().uuidString
        let path = segments.appendingPathComponent(name).path
        let descriptor = unsafe open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0o600)
        guard descriptor >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        return FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
    }

    /// Moves the recorded samples into the log and returns their number. Works only while the volume is unlocked.
    ///
    /// If the program ends at any point in this method, no sample is lost or duplicated. The log is replaced as a
    /// whole, with the names of the segments in it, and the segments are removed after that.
    func merge() throws -> Int {
        try segment?.synchronize()
        try segment?.close()
        segment = nil
        let names = try FileManager.default.contentsOfDirectory(atPath: segments.path).sorted()
        if names.isEmpty { return 0 }
        var new =
            FileManager.default.fileExists(atPath: log.path)
            ? try JSONDecoder().decode(Log.self, from: Data(contentsOf: log)) : Log()
        let before = new.samples.count
        for name in names where !new.merged.contains(name) {
            let text = try String(contentsOf: segments.appendingPathComponent(name), encoding: .utf8)
            new.samples += text.split(separator: "\n").map(String.init)
        }
        new.merged = Set(names)
        try JSONEncoder().encode(new).write(to: log, options: [.atomic, .completeFileProtection])
        let written = try FileHandle(forUpdating: log)
        try written.synchronize()
        try written.close()
        for name in names { try FileManager.default.removeItem(at: segments.appendingPathComponent(name)) }
        return new.samples.count - before
    }
}
