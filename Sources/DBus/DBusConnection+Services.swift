// Names on a bus: taking one, following who has one, and subscribing to the signals of a service.

extension DBusConnection {
    /// Takes a well-known name. False if another process has it.
    package func take(_ name: String) throws(DBusError) -> Bool {
        // Without a place in the queue (4), and replacing nobody.
        let answer = try call(Self.bus, "RequestName", [.string(name), .uint32(4)])
        return [1, 4].contains(try answer.argument().integer)
    }

    /// Gives a well-known name back.
    package func giveBack(_ name: String) throws(DBusError) {
        try call(Self.bus, "ReleaseName", [.string(name)])
    }

    /// Subscribes to signals of a service.
    ///
    /// Anybody can send a message that looks like one of the service straight to this connection. So a receiver asks
    /// `isFrom(_:service:)`.
    /// - Parameters:
    ///   - path: the object; nil for all.
    ///   - member: the signal; nil for all of the interface.
    package func subscribe(
        _ service: String, path: String? = nil, _ interface: String, _ member: String? = nil
    ) throws(DBusError) {
        try watch(service)
        var rule = "type='signal',sender='\(service)',interface='\(interface)'"
        if let path { rule += ",path='\(path)'" }
        if let member { rule += ",member='\(member)'" }
        try call(Self.bus, "AddMatch", [.string(rule)])
    }

    /// Follows which connection has a service's name.
    package func watch(_ service: String) throws(DBusError) {
        guard owners[service] == nil else { return }
        let rule = "type='signal',sender='\(Self.bus.service)',member='NameOwnerChanged',arg0='\(service)'"
        try call(Self.bus, "AddMatch", [.string(rule)])
        do throws(DBusError) {
            owners.updateValue(try call(Self.bus, "GetNameOwner", [.string(service)]).argument().text, forKey: service)
        } catch  where error.name == "org.freedesktop.DBus.Error.NameHasNoOwner" {
            owners.updateValue(nil, forKey: service)
        }
    }

    /// The unique name behind a service that is watched; nil if it does not run.
    package func owner(of service: String) -> String? { owners[service] ?? nil }

    /// Whether the process that has the service's name sent the message. The service is watched.
    package func isFrom(_ message: DBusMessage, service: String) -> Bool {
        owner(of: service).map { $0 == message.sender } ?? false
    }

    /// Keeps `owners` true. A message of the bus about a service that is watched says so in its `change`.
    func note(_ message: DBusMessage) throws(DBusError) {
        guard message.isSignal(Self.bus.interface, "NameOwnerChanged"), message.sender == Self.bus.service else {
            return
        }
        let words = try message.arguments().compactMap(\.text)
        guard words.count == 3, owners[words[0]] != nil else { return }
        let owner = words[2].isEmpty ? nil : words[2]
        owners.updateValue(owner, forKey: words[0])
        message.change = DBusMessage.OwnerChange(service: words[0], isRunning: owner != nil)
    }
}
