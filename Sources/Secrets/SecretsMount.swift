// Chooses the mount that stores the items. The program names it, or it is found by the program's directories.

internal import HostSystem
internal import SecretStore

/// The mount that `SecItemAdd` and the other functions use.
public enum SecretsMount {
    private static let chosen = Lock<HostPath?>(nil)
    private static let group = Lock<String>(KeychainAttribute.standardGroup)

    /// The access group of new items without `kSecAttrAccessGroup`. Set it once, at the start of a program that expects the
    /// group it has on an iPhone. Access groups are no permissions here.
    public static var accessGroup: String {
        get { group.withLock { $0 } }
        set { group.withLock { $0 = newValue.isEmpty ? KeychainAttribute.standardGroup : newValue } }
    }

    /// Chooses the mount by any path on it. Call it once, at the start of the program. While nothing is mounted there the
    /// functions give `errSecNotAvailable`.
    ///
    /// - Returns: false if the path is outside every protected mount. Then nothing has changed.
    @discardableResult
    public static func use(_ path: String) -> Bool {
        guard let found = holding(HostPath(path)) else { return false }
        chosen.withLock { $0 = found.mountPoint }
        return true
    }

    /// The mount point of the mount in use. It is the mount chosen with `use`, else the one that contains the home
    /// directory, else the one that contains the working directory, else the only one of this user. Nil if this user
    /// has none or several.
    public static var path: String? { current.map { String(decoding: $0.mountPoint.bytes, as: UTF8.self) } }

    private static let cache = SecretCache()

    static var store: SecretStore? { current.map { SecretStore($0, cache: cache) } }

    private static var current: MountEntry? {
        if let chosen = chosen.withLock({ $0 }) {
            // After an unmount it is a plain directory.
            guard let entry = try? MountTable.entry(at: chosen), entry.isProtectfs else { return nil }
            return entry
        }
        if let found = holding(SystemPaths.home) ?? holding(HostPath(".")) { return found }
        let all = ((try? MountTable.read()) ?? []).filter {
            $0.isProtectfs && $0.owner == SystemPaths.user
        }
        return all.count == 1 ? all.first : nil
    }

    private static func holding(_ path: HostPath) -> MountEntry? {
        guard let whole = try? path.resolved(), let entry = try? MountTable.entry(containing: whole), entry.isProtectfs
        else { return nil }
        return entry
    }
}
