// Chooses the mount that stores the items. The program names it, or it is found by the program's directories.

internal import HostSystem
internal import SecretStore

/// The mount that `SecItemAdd` and the other functions use.
public enum SecretsMount {
    private static let chosen = Lock<HostPath?>(nil)

    /// Chooses the mount by any path on it. Call it once, at the start of the program.
    ///
    /// - Returns: false if the path is outside every protected mount. Then nothing has changed.
    @discardableResult
    public static func use(_ path: String) -> Bool {
        guard let found = holding(HostPath(path)) else { return false }
        chosen.withLock { $0 = found }
        return true
    }

    /// The mount point of the mount in use. It is the mount chosen with `use`, else the one that contains the home
    /// directory, else the one that contains the working directory, else the only one of this user. Nil if this user
    /// has none or several.
    public static var path: String? { current.map { String(decoding: $0.bytes, as: UTF8.self) } }

    static var store: SecretStore? { current.map { SecretStore(mount: $0) } }

    private static var current: HostPath? {
        if let chosen = chosen.withLock({ $0 }) { return chosen }
        if let found = holding(SystemPaths.home) ?? holding(HostPath(".")) { return found }
        let all = ((try? MountTable.read()) ?? []).filter {
            $0.isProtectfs && $0.owner == SystemPaths.user
        }
        return all.count == 1 ? all.first?.mountPoint : nil
    }

    private static func holding(_ path: HostPath) -> HostPath? {
        guard let whole = try? path.resolved(), let entry = try? MountTable.entry(containing: whole), entry.isProtectfs
        else { return nil }
        return entry.mountPoint
    }
}
