// A manager of downloads, as libraries for background transfers are written: it begins and ends also while locked.

import FileProtection
import FoundationNetworking

/// A download arrives in a file of class completeUnlessOpen, through one handle. When it is whole, it moves to its place, which
/// has its own class; while that one is closed, it waits for the unlock.
final class Downloads: NSObject, URLSessionDataDelegate, @unchecked Sendable {
    private let arriving: URL
    private let kept: URL
    private let type: FileProtectionType
    private let manager = FileManager.default
    // The lock guards what follows.
    private let lock = NSLock()
    private var parts: [Int: (handle: FileHandle, url: URL, name: String)] = [:]
    private var failures: [Int: any Error] = [:]
    private let done: @Sendable (String, (any Error)?) -> Void

    init(
        in directory: URL, class type: FileProtectionType, done: @escaping @Sendable (String, (any Error)?) -> Void
    ) throws {
        arriving = directory.appendingPathComponent("arriving")
        kept = directory.appendingPathComponent("kept")
        (self.type, self.done) = (type, done)
        for (url, type) in [(arriving, FileProtectionType.completeUnlessOpen), (kept, type)] {
            try manager.createDirectory(
                at: url, withIntermediateDirectories: true, attributes: [.protectionKey: type])
        }
    }

    func begin(_ address: URL, as name: String) throws {
        let url = arriving.appendingPathComponent(name)
        // createFile would close the file, and a closed one of this class cannot be opened while locked.
        let descriptor = open(url.path, O_WRONLY | O_CREAT | O_TRUNC, 0o600)
        guard descriptor >= 0 else { throw POSIXError(POSIXErrorCode(rawValue: errno) ?? .EIO) }
        let handle = FileHandle(fileDescriptor: descriptor, closeOnDealloc: true)
        let session = URLSession(configuration: .default, delegate: self, delegateQueue: nil)
        let task = session.dataTask(with: address)
        lock.withLock { parts[task.taskIdentifier] = (handle, url, name) }
        task.resume()
        session.finishTasksAndInvalidate()
    }

    func urlSession(_ session: URLSession, dataTask task: URLSessionDataTask, didReceive data: Data) {
        guard let part = lock.withLock({ parts[task.taskIdentifier] }) else { return }
        do { try part.handle.write(contentsOf: data) } catch {
            lock.withLock { failures[task.taskIdentifier] = error }
            task.cancel()
        }
    }

    func urlSession(_ session: URLSession, task: URLSessionTask, didCompleteWithError error: (any Error)?) {
        guard let part = lock.withLock({ parts.removeValue(forKey: task.taskIdentifier) }) else { return }
        let failed = lock.withLock { failures.removeValue(forKey: task.taskIdentifier) } ?? error
        do {
            if let failed { throw failed }
            // It is whole only once this has come to the disk.
            try part.handle.synchronize()
            try part.handle.close()
            try manager.moveItem(at: part.url, to: part.url.appendingPathExtension("whole"))
            try keepWhole()
            done(part.name, nil)
        } catch {
            if failed != nil { try? manager.removeItem(at: part.url) }
            done(part.name, error)
        }
    }

    /// Moves whole downloads to their place, in its class; those that its lock holds back stay.
    @discardableResult
    func keepWhole() throws -> [String] {
        var moved: [String] = []
        for url in try manager.contentsOfDirectory(at: arriving, includingPropertiesForKeys: [.fileProtectionKey])
        where url.pathExtension == "whole" {
            let name = url.deletingPathExtension().lastPathComponent
            // The class is set before the move, so that the place never has a weaker one.
            try manager.setAttributes([.protectionKey: type], ofItemAtPath: url.path)
            let target = kept.appendingPathComponent(name)
            if manager.fileExists(atPath: target.path) {
                _ = try manager.replaceItemAt(target, withItemAt: url)
            } else {
                try manager.moveItem(at: url, to: target)
            }
            moved.append(name)
        }
        return moved.sorted()
    }
}
