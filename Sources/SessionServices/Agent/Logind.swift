// What logind says about the user's sessions and the machine's sleep.

import CommandSupport
import DBus
import HostSystem

/// A connection to the machine's bus, as long as it lasts. One thread uses it.
///
/// Every signal is checked to come from logind: any user can send one that looks like it, and an unlock is among them.
final class Logind {
    /// What has happened.
    enum Event: Equatable {
        case locked
        case unlocked
        /// The machine is about to sleep, or awake again.
        case sleep(Bool)
        /// Whether a person uses the machine may have changed.
        case idle
        /// logind has begun or ended.
        case restarted
    }

    let bus: DBusConnection
    private let user: UInt32
    /// The names of the user's sessions by their object.
    private var sessions: [String: String] = [:]
    private var userPath: String?
    /// Sleep waits as long as this is open.
    private var inhibitor: Descriptor?

    private static let service = "org.freedesktop.login1"
    private static let manager = DBusConnection.Target(service, "/org/freedesktop/login1", service + ".Manager")
    private static let session = service + ".Session"
    private static let userInterface = service + ".User"
    /// How long logind may take to answer. It answers from memory.
    private static let patience = 2.0

    /// Connects. Works without logind, which may come later.
    init(user: UInt32) throws(DBusError) {
        self.user = user
        bus = try DBusConnection(.system)
        try bus.subscribe(Self.service, path: Self.manager.path, Self.manager.interface, "PrepareForSleep")
        try bus.subscribe(Self.service, Self.session, "Lock")
        try bus.subscribe(Self.service, Self.session, "Unlock")
        try bus.subscribe(Self.service, DBusInterface.properties, "PropertiesChanged")
    }

    /// Whether logind runs.
    var isRunning: Bool { bus.owner(of: Self.service) != nil }

    /// What locks, of that which may have happened while no signals came.
    func readLocks(_ names: Set<String>) throws(DBusError) -> [Event] {
        guard isRunning else { return [] }
        try follow(names)
        var events: [Event] = []
        for path in sessions.keys {
            let target = DBusConnection.Target(Self.service, path, Self.session)
            if try property(target, "LockedHint")?.bool == true { events.append(.locked) }
        }
        if try property(Self.manager, "PreparingForSleep")?.bool == true { events.append(.sleep(true)) }
        return events
    }

    /// What else may have happened. The next sleep waits from now on.
    func readRest() throws(DBusError) -> [Event] {
        guard isRunning else { return [] }
        try holdSleep()
        return [.idle]
    }

    /// Follows these sessions and no others.
    func follow(_ names: Set<String>) throws(DBusError) {
        sessions = sessions.filter { names.contains($0.value) }
        guard isRunning else { return }
        for name in names.subtracting(sessions.values) {
            if let path = try answer("GetSession", [.string(name)])?.text { sessions[path] = name }
        }
        if userPath == nil { userPath = try answer("GetUser", [.uint32(user)])?.text }
    }

    /// When the last input came, in nanoseconds of the monotonic clock. Nil while a person uses one of the sessions.
    func idleSince() throws(DBusError) -> UInt64? {
        guard isRunning, let userPath else { return nil }
        let target = DBusConnection.Target(Self.service, userPath, Self.userInterface)
        guard try property(target, "IdleHint")?.bool == true,
            let since = try property(target, "IdleSinceHintMonotonic")?.integer, since > 0
        else { return nil }
        return UInt64(since).multipliedReportingOverflow(by: 1000).partialValue
    }

    // MARK: sleep

    /// Has logind wait before a sleep until `letSleep`, as long as its own limit allows.
    func holdSleep() throws(DBusError) {
        let words: [DBusValue] = [
            .string("sleep"), .string("protectfs"), .string("Protected volumes are locked"), .string("delay"),
        ]
        do throws(DBusError) {
            let answer = try bus.call(Self.manager, "Inhibit", words, seconds: Self.patience)
            guard case .descriptor(let number) = try answer.argument() else { return }
            do throws(SystemError) { inhibitor = try Descriptor(duplicating: number) } catch {
                Output.error("the sleep cannot be delayed: \(error)")
            }
        } catch  where !error.isDisconnected && !error.isTimeout {
            Output.error("the sleep cannot be delayed: \(error)")
        }
    }

    /// Lets a sleep begin.
    func letSleep() { inhibitor = nil }

    // MARK: signals

    /// What a message means. `names` are the user's sessions, read anew if an object is not known.
    func events(in message: DBusMessage, _ names: () -> Set<String>) throws(DBusError) -> [Event] {
        if message.change?.service == Self.service { return [.restarted] }
        guard message.kind == .signal, bus.isFrom(message, service: Self.service) else { return [] }
        switch (message.interface, message.member) {
        case (Self.manager.interface, "PrepareForSleep"):
            return try message.argument().bool.map { [.sleep($0)] } ?? []
        case (Self.session, "Lock"): return try isOwn(message.path, names) ? [.locked] : []
        case (Self.session, "Unlock"): return try isOwn(message.path, names) ? [.unlocked] : []
        case (DBusInterface.properties, "PropertiesChanged"): return try changes(in: message)
        default: return []
        }
    }

    private func isOwn(_ path: String, _ names: () -> Set<String>) throws(DBusError) -> Bool {
        if sessions[path] == nil { try follow(names()) }
        return sessions[path] != nil
    }

    private func changes(in message: DBusMessage) throws(DBusError) -> [Event] {
        let words = try message.arguments()
        guard words.count == 3, let interface = words[0].text else { return [] }
        if message.path == userPath, interface == Self.userInterface { return [.idle] }
        guard sessions[message.path] != nil, interface == Self.session else { return [] }
        // Desktops set this hint when they lock and unlock the screen themselves.
        switch words[1][key: "LockedHint"]?.bool {
        case true?: return [.locked]
        case false?: return [.unlocked]
        case nil: return []
        }
    }

    // MARK: calls

    /// The answer to a call of the manager. Nil if logind refuses, for instance as the session has ended meanwhile.
    private func answer(_ method: String, _ words: [DBusValue]) throws(DBusError) -> DBusValue? {
        do throws(DBusError) {
            return try bus.call(Self.manager, method, words, seconds: Self.patience).argument()
        } catch  where !error.isDisconnected && !error.isTimeout {
            return nil
        }
    }

    private func property(_ target: DBusConnection.Target, _ name: String) throws(DBusError) -> DBusValue? {
        do throws(DBusError) {
            return try bus.property(target, name, seconds: Self.patience)
        } catch  where !error.isDisconnected && !error.isTimeout {
            return nil
        }
    }
}
