// The login sessions of a user, as logind has written them down (sd-login(3)): they are there even while no bus is.

internal import CSystemd
package import HostSystem

/// Follows which sessions a user has. One thread uses it.
@safe package final class LoginSessions {
    private let monitor: OpaquePointer
    private let user: UInt32

    /// Begins to follow the sessions of a user. Nil if logind does not run, or has not yet.
    package init?(of user: UInt32) {
        var made: OpaquePointer?
        guard unsafe sd_login_monitor_new("uid", &made) >= 0, let monitor = unsafe made else { return nil }
        unsafe self.monitor = monitor
        self.user = user
    }

    deinit { unsafe sd_login_monitor_unref(monitor) }

    /// Ready when a session has begun, changed or ended. `read` makes it quiet again.
    package var pollEntry: PollEntry {
        let events = unsafe sd_login_monitor_get_events(monitor)
        return PollEntry(unsafe sd_login_monitor_get_fd(monitor), events: Int16(truncatingIfNeeded: max(events, 0)))
    }

    /// The names of the sessions in which the user is logged in. A session that has ended is none of them, though programs of it may
    /// still run; nor is one of cron, of a greeter, or of the user's service manager.
    package func read() -> Set<String> {
        unsafe sd_login_monitor_flush(monitor)
        // A session whose user has left is not online. logind writes this list after the files of the sessions.
        var list: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>?
        let count = unsafe sd_uid_get_sessions(user, 0, &list)
        guard count > 0, let list = unsafe list else { return [] }
        defer { unsafe free(list) }
        var names: Set<String> = []
        // The library has made the list and its texts with malloc(3), and gives them to the caller.
        for index in 0..<Int(count) {
            guard let text = unsafe list[index] else { continue }
            let name = unsafe String(cString: text)
            unsafe free(text)
            var word: UnsafeMutablePointer<CChar>?
            guard unsafe sd_session_get_class(name, &word) >= 0 else { continue }
            let kind = unsafe DBusMessage.text(UnsafePointer(word))
            unsafe free(word)
            if kind?.hasPrefix("user") == true { names.insert(name) }
        }
        return names
    }
}
