// Answers calls to exported objects: methods, properties and the description that tools ask for.

/// The objects of a process on a bus. They may come and go: for each call, the owner is asked what is at the path.
package struct DBusExports {
    /// The interfaces of the object at a path; nil for none.
    private let interfaces: (String) -> [DBusInterface]?
    /// The names of the objects just below a path.
    private let children: (String) -> [String]

    /// Exports what the owner finds at a path.
    package init(
        _ interfaces: @escaping (_ path: String) -> [DBusInterface]?,
        children: @escaping (_ path: String) -> [String] = { _ in [] }
    ) {
        self.interfaces = interfaces
        self.children = children
    }

    /// Answers a call. False for another message.
    package func answer(_ call: DBusMessage, on connection: DBusConnection) throws(DBusError) -> Bool {
        guard call.kind == .call else { return false }
        let answer: DBusMessage
        do throws(DBusError) {
            answer = try connection.answer(to: call)
            try run(call, answer)
        } catch  where error.isDisconnected {
            throw error
        } catch {
            try connection.refuse(call, error)
            return true
        }
        if call.wantsAnswer { try connection.send(answer) }
        return true
    }

    private func run(_ call: DBusMessage, _ answer: DBusMessage) throws(DBusError) {
        let found = interfaces(call.path)
        let isNamed = { (name: String) in call.interface.isEmpty || call.interface == name }
        if isNamed(DBusInterface.introspectable), call.member == "Introspect" {
            guard found != nil || !children(call.path).isEmpty else { throw .unknownObject(call.path) }
            return try answer.append(.string(description(call.path, found ?? [])))
        }
        guard let found else { throw .unknownObject(call.path) }
        if call.interface == DBusInterface.properties { return try properties(call, answer, found) }
        let named = found.filter { isNamed($0.name) }
        if named.isEmpty { throw .unknownInterface(call.interface) }
        for interface in named {
            guard let method = interface.methods.first(where: { $0.name == call.member }) else { continue }
            let expected = method.takes.map(\.signature).joined()
            guard call.signature == expected else {
                throw .invalidArguments("\(call.member) takes \"\(expected)\", not \"\(call.signature)\"")
            }
            return try method.answer(call, answer)
        }
        throw .unknownMethod(call.member)
    }

    private func properties(
        _ call: DBusMessage, _ answer: DBusMessage, _ found: [DBusInterface]
    ) throws(DBusError) {
        let words = try call.arguments()
        guard let name = words.first?.text else { throw .invalidArguments("the interface is missing") }
        // An empty name is all interfaces.
        let named = found.filter { name.isEmpty || $0.name == name }
        if named.isEmpty { throw .unknownInterface(name) }
        switch (call.member, call.signature) {
        case ("GetAll", "s"):
            var values: [(String, DBusValue)] = []
            for interface in named { values += try interface.values() }
            try answer.append(.properties(values))
        case ("Get", "ss"):
            try answer.append(.variant(try property(words[1].text, named).get()))
        case ("Set", "ssv"):
            let property = try property(words[1].text, named)
            guard let set = property.set else { throw .readOnly(property.name) }
            guard case .variant(let value) = words[2], value.signature == property.signature else {
                throw .invalidArguments("\(property.name) has the type \"\(property.signature)\"")
            }
            try set(value)
        default: throw .unknownMethod(call.member)
        }
    }

    private func property(
        _ name: String?, _ interfaces: [DBusInterface]
    ) throws(DBusError) -> DBusInterface.Property {
        for interface in interfaces {
            if let property = interface.properties.first(where: { $0.name == name }) { return property }
        }
        throw .unknownProperty(name ?? "")
    }

    private func description(_ path: String, _ found: [DBusInterface]) -> String {
        let nodes = children(path).map { " <node name=\"\($0)\"/>\n" }
        let described = found.isEmpty ? [] : found + DBusInterface.common
        return """
            <!DOCTYPE node PUBLIC "-//freedesktop//DTD D-BUS Object Introspection 1.0//EN"
             "http://www.freedesktop.org/standards/dbus/1.0/introspect.dtd">
            <node>

            """ + described.map(\.description).joined() + nodes.joined() + "</node>\n"
    }
}

extension DBusConnection {
    /// Tells everybody the new values of an object's properties.
    package func tellChange(
        _ path: String, _ interface: String, _ values: [(String, DBusValue)]
    ) throws(DBusError) {
        let signal = try signal(path, DBusInterface.properties, "PropertiesChanged")
        try signal.append([.string(interface), .properties(values), .strings([])])
        try send(signal)
    }
}
