// The state of a protected mount for programs, and waiting for it.

import VolumeFormat

/// The protected data of one mount: whether it is available, and what happens to it.
///
/// Observers of a mount share one connection to its daemon, which is made with the first and ends with the last. When the
/// daemon goes away they are told, and again when a volume is mounted there once more.
///
/// ```swift
/// func follow(_ document: any Document, at url: URL) async throws {
///     let data = try ProtectedData(at: url)
///     for try await event in data.events(answering: true) {
///         switch event {
///         case .willLock(let lock):
///             try document.close()
///             lock.done()
///         case .connected(.unlocked), .unlocked, .firstUnlock:
///             try document.open()
///         default: break
///         }
///     }
/// }
/// ```
public final class ProtectedData: Sendable {
    /// The states of a volume; the raw values are those of the attribute `user.protectfs.state`.
    public enum State: RawRepresentable, Sendable, CaseIterable {
        /// Mounted, and not unlocked since: only files without protection can be opened.
        case beforeFirstUnlock
        /// Everything is open.
        case unlocked
        /// A lock is under way.
        case locking
        /// Files of the classes complete and complete-unless-open are closed.
        case locked
        /// As `locked`: the keys are gone. The kernel still holds plaintext that it cannot let go of yet.
        case sweeping
        /// Nothing is mounted, or its daemon has died.
        case absent

        /// The state that a value of the attribute names, or `absent` by that word; nil for any other text.
        public init?(rawValue: String) {
            guard let state = Self.allCases.first(where: { $0.rawValue == rawValue }) else { return nil }
            self = state
        }

        /// The attribute's value; "absent" where nothing is mounted.
        public var rawValue: String { volumeState?.attributeValue.description ?? "absent" }

        init(_ state: VolumeState) {
            switch state {
            case .beforeFirstUnlock: self = .beforeFirstUnlock
            case .unlocked: self = .unlocked
            case .locking: self = .locking
            case .locked: self = .locked
            case .sweeping: self = .sweeping
            }
        }

        /// A switch and not a comparison: states are compared by their raw values, which come from here.
        private var volumeState: VolumeState? {
            switch self {
            case .beforeFirstUnlock: .beforeFirstUnlock
            case .unlocked: .unlocked
            case .locking: .locking
            case .locked: .locked
            case .sweeping: .sweeping
            case .absent: nil
            }
        }
    }

    /// Where the mount is.
    public let mountPoint: URL
    let observer: MountObserver
    private let path: String

    /// The mount that holds what `url` leads to, or would.
    ///
    /// - Throws: `FileProtectionError.notProtected` where that is on no protected mount.
    public init(at url: URL) throws(FileProtectionError) {
        guard url.isFileURL, let mount = ProtectedMount.holding(url.path) else {
            throw .notProtected(url.isFileURL ? url.path : url.absoluteString)
        }
        path = mount.path
        mountPoint = URL(fileURLWithPath: mount.path, isDirectory: true)
        observer = MountObserver.shared(mount.path)
    }

    /// The state now. It is the mount's own word, and needs no connection.
    public var state: State { ProtectedMount.state(at: path).map { State($0) } ?? .absent }

    /// Whether files of every class can be opened. Still true while programs are told that a lock comes.
    public var isAvailable: Bool { state == .unlocked }

    /// Returns when the volume is unlocked, at once if it is; waits through a daemon that ends and comes back.
    ///
    /// - Throws: `CancellationError`, or `FileProtectionError.unreachable`.
    public func waitUntilAvailable() async throws {
        try await wait { $0 == .unlocked }
    }

    /// Returns when the volume has been unlocked since it was mounted, at once if it has.
    ///
    /// - Throws: `CancellationError`, or `FileProtectionError.unreachable`.
    public func waitUntilFirstUnlock() async throws {
        try await wait { $0 != .beforeFirstUnlock && $0 != .absent }
    }

    private func wait(_ isReached: @Sendable (State) -> Bool) async throws {
        if isReached(state) { return }
        for try await event in events {
            switch event {
            case .connected(let now): if isReached(now) { return }
            case .unlocked, .firstUnlock: if isReached(.unlocked) { return }
            case .locked: if isReached(.locked) { return }
            case .sweeping: if isReached(.sweeping) { return }
            case .willLock, .willUnlock, .disconnected: break
            }
        }
        throw CancellationError()
    }
}
