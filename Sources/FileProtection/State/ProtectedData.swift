// The state of a protected mount, for programs that read it or wait for it.

import VolumeFormat

/// The protected data of one mount, with its state and its events.
///
/// All observers of a mount share one connection to its daemon. The first observer makes it and the last one ends it.
/// Observers are told when the daemon ends, and when a volume is mounted there again.
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
    /// The states of a volume. The raw values are those of the attribute `user.protectfs.state`.
    public enum State: RawRepresentable, Sendable, CaseIterable {
        /// The volume is mounted and has not been unlocked since. Only files of class none can be opened.
        case beforeFirstUnlock
        /// Files of every class can be opened.
        case unlocked
        /// The volume is being locked.
        case locking
        /// Files of class complete are closed, and files of class complete unless open cannot be opened.
        case locked
        /// The keys are wiped as in `locked`, but the kernel still holds plaintext that it cannot drop yet.
        case sweeping
        /// Nothing is mounted, or the daemon has died.
        case absent

        /// The state for a value of the attribute or for "absent"; nil for any other text.
        public init?(rawValue: String) {
            guard let state = Self.allCases.first(where: { $0.rawValue == rawValue }) else { return nil }
            self = state
        }

        /// The attribute's value, or "absent" if nothing is mounted.
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

        /// This is a switch, because comparing states would use their raw values, which come from here.
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

    /// Where the volume is mounted, as the kernel names it.
    public let mountPoint: URL
    let observer: MountObserver
    private let path: String

    /// The protected data of the mount that contains the target of `url`. The target need not exist.
    ///
    /// - Throws: `FileProtectionError.notProtected` if it is outside every protected mount.
    public convenience init(at url: URL) throws(FileProtectionError) {
        guard url.isFileURL, let mount = ProtectedMount.holding(url.path) else {
            throw .notProtected(url.isFileURL ? url.path : url.absoluteString)
        }
        self.init(mount)
    }

    /// The protected data of a mount in the kernel's table, also if its daemon has died.
    package init(_ mount: ProtectedMount) {
        path = mount.path
        mountPoint = URL(fileURLWithPath: mount.path, isDirectory: true)
        observer = MountObserver.shared(mount.path)
    }

    /// The present state. It is read from the mount and needs no connection.
    public var state: State { ProtectedMount.state(at: path).map { State($0) } ?? .absent }

    /// Whether files of every class can be opened. It remains true while a lock is announced.
    public var isAvailable: Bool { state == .unlocked }

    /// Returns when the volume is unlocked. Continues to wait if the daemon ends and is started again.
    ///
    /// - Throws: `CancellationError`, or `FileProtectionError.unreachable`.
    public func waitUntilAvailable() async throws {
        try await wait { $0 == .unlocked }
    }

    /// Returns when the volume has been unlocked at least once since it was mounted.
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
