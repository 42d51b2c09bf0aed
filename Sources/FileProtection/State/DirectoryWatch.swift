// Tells when something appears in or vanishes from directories that need not be there yet.

import Dispatch
import Glibc

/// An inotify(7) of the nearest directories that are there; everything here happens on one queue.
final class DirectoryWatch {
    /// Bytes of events that are read at a time.
    private static let partSize = 4096

    private let descriptor: Int32
    private let source: any DispatchSourceRead
    private let paths: [String]
    private let changed: () -> Void

    /// Watches from now on; nil when the system has no inotify left for this user.
    init?(_ paths: [String], on queue: DispatchQueue, changed: @escaping () -> Void) {
        // IN_NONBLOCK and IN_CLOEXEC are these by definition.
        descriptor = inotify_init1(Int32(O_NONBLOCK | O_CLOEXEC))
        guard descriptor >= 0 else { return nil }
        self.paths = paths
        self.changed = changed
        source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        let descriptor = descriptor
        source.setEventHandler { [weak self] in self?.read() }
        source.setCancelHandler { Glibc.close(descriptor) }
        source.resume()
        watch()
    }

    deinit { source.cancel() }

    /// The nearest ancestor again: one that came nearer is watched beside the others.
    private func watch() {
        let events = UInt32(IN_CREATE | IN_MOVED_TO | IN_DELETE | IN_DELETE_SELF | IN_MOVE_SELF)
        for path in paths {
            var place = path
            while unsafe inotify_add_watch(descriptor, place, events) < 0, place != "/", !place.isEmpty {
                place = (place as NSString).deletingLastPathComponent
            }
        }
    }

    private func read() {
        var part = [UInt8](repeating: 0, count: Self.partSize)
        while unsafe part.withUnsafeMutableBytes({ unsafe Glibc.read(descriptor, $0.baseAddress, $0.count) }) > 0 {}
        watch()
        changed()
    }
}
