// Watches directories, which need not exist yet, for entries that appear and vanish.

import CLibrary
import Dispatch

/// Watches the nearest existing directories with inotify(7). All methods are called on one queue.
final class DirectoryWatch {
    /// The most bytes of events of one read.
    private static let partSize = 4096

    private let descriptor: Int32
    private let source: any DispatchSourceRead
    private let paths: [String]
    private let changed: () -> Void

    /// Begins to watch; nil if this user has no inotify instance left.
    init?(_ paths: [String], on queue: DispatchQueue, changed: @escaping () -> Void) {
        // IN_NONBLOCK and IN_CLOEXEC are defined as these flags.
        descriptor = inotify_init1(Int32(O_NONBLOCK | O_CLOEXEC))
        guard descriptor >= 0 else { return nil }
        self.paths = paths
        self.changed = changed
        source = DispatchSource.makeReadSource(fileDescriptor: descriptor, queue: queue)
        let descriptor = descriptor
        source.setEventHandler { [weak self] in self?.read() }
        source.setCancelHandler { CLibrary.close(descriptor) }
        source.resume()
        watch()
    }

    deinit { source.cancel() }

    /// Watches the nearest existing ancestor, in addition to those watched before.
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
        while unsafe part.withUnsafeMutableBytes({ unsafe CLibrary.read(descriptor, $0.baseAddress, $0.count) }) > 0 {}
        watch()
        changed()
    }
}
