// An interface of an exported object: its methods, properties and signals, and their description as XML.

/// What an object offers under one name.
package struct DBusInterface {
    /// An argument in the description.
    package struct Argument: Sendable, Hashable {
        /// Its name, for people.
        package let name: String
        /// Its type.
        package let signature: String

        /// Makes an argument.
        package init(_ name: String, _ signature: String) {
            self.name = name
            self.signature = signature
        }
    }

    /// What a caller can ask of an object, with the types of arguments and answer.
    package struct Method {
        let name: String
        let takes: [Argument]
        let gives: [Argument]
        let answer: (DBusMessage, DBusMessage) throws(DBusError) -> Void

        /// A method that works on messages: it reads the arguments of the first and writes those of the second.
        package init(
            _ name: String, takes: [Argument] = [], gives: [Argument] = [],
            streaming answer: @escaping (_ call: DBusMessage, _ answer: DBusMessage) throws(DBusError) -> Void
        ) {
            self.name = name
            self.takes = takes
            self.gives = gives
            self.answer = answer
        }

        /// A method that works on values. Their types are those of `takes` and `gives`.
        package init(
            _ name: String, takes: [Argument] = [], gives: [Argument] = [],
            _ run: @escaping (_ arguments: [DBusValue], _ sender: String) throws(DBusError) -> [DBusValue]
        ) {
            self.init(
                name, takes: takes, gives: gives,
                streaming: { (call, answer) throws(DBusError) in
                    try answer.append(try run(try call.arguments(), call.sender))
                })
        }
    }

    /// A value of an object that callers read, and may set.
    package struct Property {
        let name: String
        let signature: String
        let get: () throws(DBusError) -> DBusValue
        let set: ((DBusValue) throws(DBusError) -> Void)?

        /// A property that can be read, and set if `set` is given.
        package init(
            _ name: String, _ signature: String, get: @escaping () throws(DBusError) -> DBusValue,
            set: ((DBusValue) throws(DBusError) -> Void)? = nil
        ) {
            self.name = name
            self.signature = signature
            self.get = get
            self.set = set
        }
    }

    /// A signal, which is only described here. `DBusConnection.signal` makes one.
    package struct Signal: Sendable {
        let name: String
        let arguments: [Argument]

        /// Describes a signal.
        package init(_ name: String, _ arguments: [Argument] = []) {
            self.name = name
            self.arguments = arguments
        }
    }

    /// The interface of properties, which each object has.
    package static let properties = "org.freedesktop.DBus.Properties"
    static let introspectable = "org.freedesktop.DBus.Introspectable"

    /// In reverse domain order, as callers give it.
    package let name: String
    let methods: [Method]
    let properties: [Property]
    let signals: [Signal]

    /// Makes an interface.
    package init(_ name: String, methods: [Method] = [], properties: [Property] = [], signals: [Signal] = []) {
        self.name = name
        self.methods = methods
        self.properties = properties
        self.signals = signals
    }

    /// All properties with their values.
    func values() throws(DBusError) -> [(String, DBusValue)] {
        var values: [(String, DBusValue)] = []
        for property in properties { values.append((property.name, try property.get())) }
        return values
    }

    // MARK: description

    /// The element of the introspection format. Names and types are the program's own, so nothing needs to be escaped.
    var description: String {
        func line(_ argument: Argument, _ direction: String) -> String {
            "   <arg name=\"\(argument.name)\" type=\"\(argument.signature)\"\(direction)/>\n"
        }
        var text = " <interface name=\"\(name)\">\n"
        for method in methods {
            text += "  <method name=\"\(method.name)\">\n"
            for argument in method.takes { text += line(argument, " direction=\"in\"") }
            for argument in method.gives { text += line(argument, " direction=\"out\"") }
            text += "  </method>\n"
        }
        for property in properties {
            let access = property.set == nil ? "read" : "readwrite"
            text += "  <property name=\"\(property.name)\" type=\"\(property.signature)\" access=\"\(access)\"/>\n"
        }
        for signal in signals {
            text += "  <signal name=\"\(signal.name)\">\n"
            for argument in signal.arguments { text += line(argument, "") }
            text += "  </signal>\n"
        }
        return text + " </interface>\n"
    }

    /// The interfaces that `DBusExports` answers itself, for the description.
    static var common: [DBusInterface] {
        [
            DBusInterface(
                properties,
                methods: [
                    Method(
                        "Get", takes: [Argument("interface", "s"), Argument("property", "s")],
                        gives: [Argument("value", "v")],
                        streaming: { _, _ in }),
                    Method(
                        "Set", takes: [Argument("interface", "s"), Argument("property", "s"), Argument("value", "v")],
                        streaming: { _, _ in }),
                    Method(
                        "GetAll", takes: [Argument("interface", "s")], gives: [Argument("properties", "a{sv}")],
                        streaming: { _, _ in }),
                ],
                signals: [
                    Signal(
                        "PropertiesChanged",
                        [Argument("interface", "s"), Argument("changed", "a{sv}"), Argument("invalidated", "as")])
                ]),
            DBusInterface(
                introspectable, methods: [Method("Introspect", gives: [Argument("xml", "s")], streaming: { _, _ in })]),
        ]
    }
}
