// Which mount the items lie in: named by the program, else found by where the program runs.

internal import HostSystem
internal import SecretStore

/// The mount that `SecItemAdd` and its like speak of.
public enum SecretsMount {
    private static let chosen = Lock<HostPath?>(nil)

    /// Names the mount by any path in it, once at the program's start. False, and nothing is changed, where that is on no protected mount.
    @discardableResult
    public static func use(_ path: String) -> Bool {
        guard let found = holding(HostPath(path)) else { return false }
        chosen.withLock { $0 = found }
        return true
    }

    /// The mount named with `use`; else the one that holds the home directory, else the one that holds the working
    /// directory, else the only one of this user. Nil where there is none, or several.
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
