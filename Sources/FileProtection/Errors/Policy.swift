// What happens to a class that is asked for where there is no protection.

extension FileProtection {
    /// What to do where a class is asked for off a protected mount.
    public enum Policy: Sendable {
        /// Throw `FileProtectionError.notProtected`: nothing is written. The default.
        case require
        /// Go on without protection, and say so on standard error, once for each path.
        case warn
        /// Go on without protection, silently.
        case ignore
    }

    private final class PolicyBox: @unchecked Sendable {
        // The lock guards both.
        let lock = NSLock()
        var policy = Policy.require
        var warned: Set<String> = []
    }

    private static let box = PolicyBox()

    /// The policy of this process.
    public static var policy: Policy {
        get { box.lock.withLock { box.policy } }
        set { box.lock.withLock { box.policy = newValue } }
    }

    /// Throws or warns, as the policy says; returns where the program is to go on without protection.
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
        if first { FileHandle.standardError.write(Data("FileProtection: \(refusal.description)\n".utf8)) }
    }
}
