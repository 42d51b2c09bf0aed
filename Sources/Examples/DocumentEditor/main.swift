// A document editor. It writes lines from standard input to a document of class complete. It closes the document before
// a lock of the volume and opens it again after the unlock. Lines typed in between wait in memory. With `--delegate` it
// uses the delegate's methods instead of the notifications.

import Dispatch
import UIKitCompat

/// A document that is open while its volume is unlocked.
@MainActor final class Document: UIApplicationDelegate {
    private let url: URL
    private var handle: FileHandle?
    /// Lines that could not be written yet.
    private var waiting: [String] = []

    init(_ url: URL) { self.url = url }

    func open() throws {
        if !FileManager.default.fileExists(atPath: url.path) {
            let attributes: [FileAttributeKey: Any] = [.protectionKey: FileProtectionType.complete]
            guard FileManager.default.createFile(atPath: url.path, contents: nil, attributes: attributes) else {
                throw CocoaError(.fileWriteUnknown)
            }
        }
        let opened = try FileHandle(forUpdating: url)
        try opened.seekToEnd()
        handle = opened
        let lines = waiting
        waiting = []
        for line in lines { try add(line) }
    }

    func add(_ line: String) throws {
        guard let handle else {
            waiting.append(line)
            return
        }
        try handle.write(contentsOf: Data((line + "\n").utf8))
    }

    func close() throws {
        guard let handle else { return }
        self.handle = nil
        try handle.synchronize()
        try handle.close()
    }

    func willBecomeUnavailable() {
        do { try close() } catch { say("closing failed: \(error)") }
        say("closed")
    }

    func didBecomeAvailable() {
        do { try open() } catch { say("opening failed: \(error)") }
        say("open")
    }

    func applicationProtectedDataWillBecomeUnavailable(_ application: UIApplication) { willBecomeUnavailable() }

    func applicationProtectedDataDidBecomeAvailable(_ application: UIApplication) { didBecomeAvailable() }
}

func say(_ text: String) { FileHandle.standardOutput.write(Data((text + "\n").utf8)) }

let arguments = CommandLine.arguments.dropFirst()
guard let path = arguments.last, !path.hasPrefix("-"), arguments.dropLast().allSatisfy({ $0 == "--delegate" }) else {
    FileHandle.standardError.write(
        Data("Usage: document-editor [--delegate] FILE    (lines to add from standard input)\n".utf8))
    exit(2)
}
let application = UIApplication.shared
let document = Document(URL(fileURLWithPath: path))
do {
    try application.useProtectedData(at: URL(fileURLWithPath: path))
} catch {
    FileHandle.standardError.write(Data("\(error)\n".utf8))
    exit(1)
}
if arguments.contains("--delegate") {
    application.delegate = document
} else {
    let center = NotificationCenter.default
    _ = center.addObserver(
        forName: UIApplication.protectedDataWillBecomeUnavailableNotification, object: nil, queue: nil
    ) { _ in MainActor.assumeIsolated { document.willBecomeUnavailable() } }
    _ = center.addObserver(
        forName: UIApplication.protectedDataDidBecomeAvailableNotification, object: nil, queue: nil
    ) { _ in MainActor.assumeIsolated { document.didBecomeAvailable() } }
}
if application.isProtectedDataAvailable { document.didBecomeAvailable() } else { say("closed") }

var typed = Data()
let input = DispatchSource.makeReadSource(fileDescriptor: 0, queue: .main)
input.setEventHandler {
    let part = (try? FileHandle.standardInput.read(upToCount: Int(max(input.data, 1)))) ?? nil
    guard let part, !part.isEmpty else {
        try? document.close()
        exit(0)
    }
    typed += part
    while let end = typed.firstIndex(of: 10) {
        let line = String(decoding: typed[..<end], as: UTF8.self)
        typed = Data(typed[(end + 1)...])
        do { try document.add(line) } catch { say("writing failed: \(error)") }
    }
}
input.resume()
dispatchMain()
