// The accesses that file coordinators of this process have and wait for.

import CLibrary

/// One item of a coordinated access.
struct FileAccess: Sendable {
    /// The item's path, in a form in which each item has one.
    let path: String
    let isWriting: Bool
    /// Whether it deletes, moves or replaces the item, and with it everything in it.
    let isOfContents: Bool

    init(_ item: Item) {
        path = FileAccess.path(of: item.place)
        (isWriting, isOfContents) = (item.isWriting, item.isOfContents)
    }

    /// Whether the two cannot go on at the same time: one writes and they are of one item, or one deletes, moves or
    /// replaces a directory and the other is of something in it. Other accesses of a directory are of its entries only.
    func conflicts(with other: FileAccess) -> Bool {
        if path == other.path { return isWriting || other.isWriting }
        return isOfContents && FileAccess.contains(path, other.path)
            || other.isOfContents && FileAccess.contains(other.path, path)
    }

    /// Whether a directory contains a path, at any depth.
    static func contains(_ directory: String, _ path: String) -> Bool {
        path.hasPrefix(directory.hasSuffix("/") ? directory : directory + "/") && path != directory
    }

    /// The path with all links above the last component resolved. Neither the item nor its directory need exist, because
    /// a move is told after it was made.
    static func path(of url: URL) -> String { resolved(url.standardizedFileURL.path) }

    private static func resolved(_ path: String) -> String {
        guard path.hasPrefix("/"), let (parent, name) = ProtectedMount.split(path) else { return path }
        let real = unsafe realpath(parent, nil)
        defer { unsafe free(real) }
        let directory = unsafe real.map { unsafe String(cString: $0) } ?? resolved(parent)
        return directory == "/" ? "/" + name : directory + "/" + name
    }
}

/// All accesses of this process. An access waits until no other one conflicts, in the order of arrival.
final class FileAccesses: @unchecked Sendable {
    static let shared = FileAccesses()

    /// What one call of a coordinator asks for.
    private struct Request {
        let number: UInt64
        let purpose: String
        let items: [FileAccess]
        /// The presenter of the coordinator.
        let presenter: ObjectIdentifier?
        var isGranted = false
        /// The presenter that is asked now.
        var asked: ObjectIdentifier?
        /// The requests that conflict with this one and let it go first.
        var passed: Set<UInt64> = []
    }

    // The condition's lock guards all fields.
    private let changed = NSCondition()
    private var requests: [Request] = []
    private var last: UInt64 = 0

    /// Waits for the items. Nil if `isCancelled` became true meanwhile; ask for that with ``wake()``.
    ///
    /// - Parameter purpose: accesses of one purpose do not wait for each other, because they may be nested.
    /// - Parameter presenter: that of the coordinator. What it does while it is asked does not wait for the access that
    ///   asks it, which would wait for it in turn.
    func begin(
        _ items: [FileAccess], purpose: String, presenter: ObjectIdentifier?, isCancelled: () -> Bool
    ) -> UInt64? {
        changed.lock()
        defer { changed.unlock() }
        last += 1
        let request = Request(number: last, purpose: purpose, items: items, presenter: presenter)
        requests.append(request)
        while isBlocked(request) || isCancelled() {
            guard !isCancelled() else {
                remove(request.number)
                return nil
            }
            changed.wait()
        }
        let passed = requests.filter { $0.isGranted && $0.purpose != purpose && conflict($0, request) }.map(\.number)
        change(request.number) {
            $0.isGranted = true
            $0.passed = Set(passed)
        }
        return request.number
    }

    /// Asks a presenter for a granted access. Meanwhile the presenter's own accesses go first.
    func asking(_ presenter: ObjectIdentifier, for number: UInt64, isCancelled: () -> Bool, _ ask: () -> Void) {
        changed.lock()
        change(number) { $0.asked = presenter }
        changed.broadcast()
        changed.unlock()
        ask()
        changed.lock()
        defer { changed.unlock() }
        change(number) { $0.asked = nil }
        // A presenter may answer before its own access has ended.
        while requests.contains(where: { $0.passed.contains(number) }), !isCancelled() { changed.wait() }
    }

    func end(_ number: UInt64) {
        changed.lock()
        defer { changed.unlock() }
        remove(number)
    }

    /// Has all that wait look whether they were cancelled.
    func wake() {
        changed.lock()
        defer { changed.unlock() }
        changed.broadcast()
    }

    private func remove(_ number: UInt64) {
        requests.removeAll { $0.number == number }
        changed.broadcast()
    }

    private func change(_ number: UInt64, _ body: (inout Request) -> Void) {
        if let index = requests.firstIndex(where: { $0.number == number }) { body(&requests[index]) }
    }

    private func conflict(_ one: Request, _ other: Request) -> Bool {
        one.items.contains { item in other.items.contains { item.conflicts(with: $0) } }
    }

    private func isBlocked(_ request: Request) -> Bool {
        // An access inside another one of its purpose must not wait for those that wait for the outer one; nor an access
        // for which another one waits that asks its presenter.
        let isFirst = requests.contains { other in
            other.isGranted && (other.purpose == request.purpose || lets(request.presenter, pass: other))
        }
        return requests.contains { other in
            guard other.purpose != request.purpose, other.isGranted || other.number < request.number && !isFirst else {
                return false
            }
            // What the outer access of this purpose has passed waits for its end.
            if requests.contains(where: { $0.purpose == request.purpose && $0.passed.contains(other.number) }) {
                return false
            }
            return conflict(request, other) && !lets(request.presenter, pass: other)
        }
    }

    /// Whether a granted access waits for what this presenter does, itself or by way of an access that it let pass.
    private func lets(_ presenter: ObjectIdentifier?, pass other: Request) -> Bool {
        guard let presenter else { return false }
        return other.asked == presenter
            || requests.contains { $0.passed.contains(other.number) && lets(presenter, pass: $0) }
    }
}
