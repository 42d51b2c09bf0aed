// The interface of an item of the Secret Service.

import DBus
import SecretStore
import SodiumKit

extension SecretService {
    /// The interface of the item with this name. The item is looked up at each call.
    func itemInterface(_ name: String) -> DBusInterface {
        typealias Method = DBusInterface.Method
        typealias Property = DBusInterface.Property
        return DBusInterface(
            Self.itemInterface,
            methods: [
                Method("Delete", gives: [Argument("prompt", "o")]) { [self] (_, _) throws(DBusError) in
                    let item = try item(name)
                    try SecretError.explained { () throws(SecretError) in try store.delete(item) }
                    try tell("ItemDeleted", item)
                    return [.path(ServicePath.none)]
                },
                Method(
                    "GetSecret", takes: [Argument("session", "o")],
                    gives: [Argument("secret", ServiceSecret.signature)],
                    streaming: { [self] (call, answer) throws(DBusError) in
                        try ServiceSecret.checkSession(try call.argument().text, of: call.sender)
                        var item = try item(name)
                        let secret = try SecretError.explained { () throws(SecretError) in
                            try store.latestSecret(of: &item)
                        }
                        try answer.markSensitive()
                        try ServiceSecret.write(secret, of: item, to: answer, session: .session(of: call.sender))
                    }),
                Method(
                    "SetSecret", takes: [Argument("secret", ServiceSecret.signature)],
                    streaming: { [self] (call, _) throws(DBusError) in
                        let item = try item(name)
                        try ServiceSecret.read(call) { (secret, contentType) throws(DBusError) in
                            let changed = item.with(contentType: contentType)
                            try SecretError.explained { () throws(SecretError) in
                                try store.update(item, to: changed, secret: secret)
                            }
                        }
                        try tell("ItemChanged", item)
                    }),
            ],
            properties: [
                Property(
                    "Locked", "b",
                    get: { [self] () throws(DBusError) in
                        .bool(Self.isLocked(try item(name).protectionClass, in: states))
                    }),
                Property(
                    "Attributes", "a{ss}",
                    get: { [self] () throws(DBusError) in .attributes(try item(name).texts) },
                    set: { [self] (value) throws(DBusError) in
                        let item = try item(name)
                        try change(item, to: try item.with(texts: value.attributes ?? [:]))
                    }),
                Property(
                    "Label", "s",
                    get: { [self] () throws(DBusError) in .string(try item(name).label) },
                    set: { [self] (value) throws(DBusError) in
                        let item = try item(name)
                        try change(item, to: item.with(label: value.text ?? ""))
                    }),
                Property(
                    "Created", "t", get: { [self] () throws(DBusError) in Self.seconds(try item(name).created) }),
                Property(
                    "Modified", "t", get: { [self] () throws(DBusError) in Self.seconds(try item(name).modified) }),
            ])
    }
}
