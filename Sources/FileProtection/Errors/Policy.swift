// The policy for a class that a program requests outside a protected mount.

extension FileProtection {
    /// The library's reaction when a program requests a class outside a protected mount.
    public enum Policy: Sendable {
        /// Throw `FileProtectionError.notProtected` and write nothing. This is the default.
        case require
        /// Continue without protection, and warn on standard error once for each path.
        case warn
        /// Continue without protection and without a warning.
        case ignore
    }

    private final class PolicyBox: @unchecked Sendable {
        // The lock guards both fields.
        let lock = NSLock()
        var policy = Policy.require
        var warned: Set<String> = []
    }

    private static let box = PolicyBox()

    /// The policy of this process. It may be read and set in any thread.
    public static var policy: Policy {
        get { box.lock.withLock { box.policy } }
        set { box.lock.withLock { box.policy = newValue } }
    }

    /// Throws or warns, as the policy says. Returns if the program continues without protection.
    static func refuseOrGoOn(_ path: String) throws(FileProtectionError) {
        let refusal = FileProtectionError.notProtected(path)
        let first: Bool? = box.lock.withLock {
            switch box.policy {
            case .require: return nil
            case .warn: return box.warned.insert(path).inserted
            case .ignore: return false
            }
        }
        guard let first else { throw refusal }
        if first { Warning.write("FileProtection: \(refusal.description)") }
    }

    /// Warns of a path that gets no protection, once, unless the policy is to ignore it.
    static func warn(of path: String) {
        let isFirst = box.lock.withLock { box.policy != .ignore && box.warned.insert(path).inserted }
        if isFirst { Warning.write("FileProtection: \(FileProtectionError.notProtected(path).description)") }
    }
}
