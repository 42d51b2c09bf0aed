// The objects of the Secret Service and their interfaces, without items.

import DBus
import SecretStore
import SodiumKit
import VolumeFormat

extension SecretService {
    private typealias Method = DBusInterface.Method
    private typealias Property = DBusInterface.Property
    private typealias Signal = DBusInterface.Signal
    typealias Argument = DBusInterface.Argument

    static let serviceInterface = "org.freedesktop.Secret.Service"
    static let collectionInterface = "org.freedesktop.Secret.Collection"
    static let itemInterface = "org.freedesktop.Secret.Item"
    static let promptInterface = "org.freedesktop.Secret.Prompt"
    private static let sessionInterface = "org.freedesktop.Secret.Session"

    /// The interfaces of the object at a path; nil if none can be there. An item that is gone answers that it is.
    func interfaces(at path: String) -> [DBusInterface]? {
        switch ServicePath(path) {
        case .service: [service]
        case .collection: [collection]
        case .item(let name): [itemInterface(name)]
        case .session: [session]
        case .prompt(let number): [prompt(number)]
        case nil: nil
        }
    }

    /// The names of the objects just below a path.
    func children(of path: String) -> [String] {
        ServicePath.children(of: path) { ((try? items()) ?? []).map(\.file) }
    }

    // MARK: the service

    private var service: DBusInterface {
        DBusInterface(
            Self.serviceInterface,
            methods: [
                Method(
                    "OpenSession", takes: [Argument("algorithm", "s"), Argument("input", "v")],
                    gives: [Argument("output", "v"), Argument("result", "o")]
                ) { (words, sender) throws(DBusError) in
                    // Clients that would rather encrypt then ask for a plain session.
                    guard words[0].text == "plain" else {
                        throw .notSupported("only plain sessions; the bus carries messages of this user alone")
                    }
                    return [.variant(.string("")), .path(ServicePath.session(of: sender).text)]
                },
                Method(
                    "CreateCollection", takes: [Argument("properties", "a{sv}"), Argument("alias", "s")],
                    gives: [Argument("collection", "o"), Argument("prompt", "o")]
                ) { (_: [DBusValue], _: String) throws(DBusError) in throw .notSupported("a volume is one collection")
                },
                Method(
                    "SearchItems", takes: [Argument("attributes", "a{ss}")],
                    gives: [Argument("unlocked", "ao"), Argument("locked", "ao")]
                ) { [self] (words, _) throws(DBusError) in
                    let found = try search(words[0])
                    let states = states
                    let isLocked = { (item: SecretItem) in Self.isLocked(item.protectionClass, in: states) }
                    return [
                        .paths(found.filter { !isLocked($0) }.map(\.object.text)),
                        .paths(found.filter(isLocked).map(\.object.text)),
                    ]
                },
                Method(
                    "Unlock", takes: [Argument("objects", "ao")],
                    gives: [Argument("unlocked", "ao"), Argument("prompt", "o")]
                ) { [self] (words, sender) throws(DBusError) in
                    let paths = (words[0].elements ?? []).compactMap(\.text)
                    var seen: Set<String> = []
                    var open: [String] = []
                    var closed: [String] = []
                    for path in paths where seen.insert(path).inserted {
                        guard let isLocked = try isLocked(path) else { continue }
                        if isLocked { closed.append(path) } else { open.append(path) }
                    }
                    let prompt = closed.isEmpty ? nil : try prompts.make(for: sender, closed)
                    return [.paths(open), .path(prompt?.text ?? ServicePath.none)]
                },
                Method(
                    "Lock", takes: [Argument("objects", "ao")],
                    gives: [Argument("locked", "ao"), Argument("prompt", "o")]
                ) { [self] (words, _) throws(DBusError) in
                    let paths = (words[0].elements ?? []).compactMap(\.text)
                    if try !unlocked(paths).isEmpty { try lock() }
                    var closed: [String] = []
                    for path in paths where try isLocked(path) == true { closed.append(path) }
                    return [.paths(closed), .path(ServicePath.none)]
                },
                Method(
                    "GetSecrets", takes: [Argument("items", "ao"), Argument("session", "o")],
                    gives: [Argument("secrets", "a{o" + ServiceSecret.signature + "}")],
                    streaming: { [self] (call, answer) throws(DBusError) in try writeSecrets(call, answer) }),
                Method("ReadAlias", takes: [Argument("name", "s")], gives: [Argument("collection", "o")]) { words, _ in
                    let isKnown = words[0].text.map(ServicePath.aliases.contains) ?? false
                    return [.path(isKnown ? ServicePath.collection.text : ServicePath.none)]
                },
                Method("SetAlias", takes: [Argument("name", "s"), Argument("collection", "o")]) {
                    (words, _) throws(DBusError) in
                    let isKnown = words[0].text.map(ServicePath.aliases.contains) ?? false
                    guard isKnown, words[1].text.flatMap(ServicePath.init) == .collection else {
                        throw .notSupported("the collection has the aliases default and login, and no others")
                    }
                    return []
                },
            ],
            properties: [Property("Collections", "ao", get: { .paths([ServicePath.collection.text]) })],
            signals: ["CollectionCreated", "CollectionDeleted", "CollectionChanged"].map {
                Signal($0, [Argument("collection", "o")])
            })
    }

    /// The items with these attributes.
    private func search(_ attributes: DBusValue) throws(DBusError) -> [SecretItem] {
        guard let wanted = attributes.attributes else { throw .invalidArguments("attributes are text") }
        return try items().filter { $0.has(wanted) }
    }

    /// Whether the collection or item at a path is locked; nil if none is there.
    func isLocked(_ path: String) throws(DBusError) -> Bool? {
        switch ServicePath(path) {
        case .collection: return isLocked
        case .item(let name):
            let found = try SecretError.explained { () throws(SecretError) in try store.item(named: name) }
            return found.map { Self.isLocked($0.protectionClass, in: states) }
        default: return nil
        }
    }

    /// The objects of these that are there and unlocked.
    func unlocked(_ paths: [String]) throws(DBusError) -> [String] {
        var open: [String] = []
        for path in paths where try isLocked(path) == false { open.append(path) }
        return open
    }

    /// The most bytes in one answer with secrets.
    private static let mostSecrets = 16 << 20

    /// Writes the secrets that can be read, each once. Items that are locked or gone are left out, as a client expects of a list.
    private func writeSecrets(_ call: DBusMessage, _ answer: DBusMessage) throws(DBusError) {
        let paths = (try call.argument().elements ?? []).compactMap(\.text)
        try ServiceSecret.checkSession(try call.argument().text, of: call.sender)
        try answer.markSensitive()
        let entry = "o" + ServiceSecret.signature
        try answer.open(.array, "{" + entry + "}")
        var seen: Set<String> = []
        var size = 0
        for path in paths where seen.insert(path).inserted {
            guard case .item(let name) = ServicePath(path) else { continue }
            var item: SecretItem
            let secret: SecretBytes
            do throws(SecretError) {
                guard let found = try store.item(named: name) else { continue }
                item = found
                secret = try store.latestSecret(of: &item)
            } catch .locked, .notFound {
                continue
            } catch {
                throw DBusError(error)
            }
            // The bus ends the connection of one that sends too much.
            size += path.utf8.count + secret.byteCount + item.contentType.utf8.count
            guard size <= Self.mostSecrets else { throw .limit("these secrets have more than 16 MiB; ask for fewer") }
            try answer.open(.entry, entry)
            try answer.append(.path(path))
            try ServiceSecret.write(secret, of: item, to: answer, session: .session(of: call.sender))
            try answer.close()
        }
        try answer.close()
    }

    // MARK: the collection

    private var collection: DBusInterface {
        DBusInterface(
            Self.collectionInterface,
            methods: [
                Method("Delete", gives: [Argument("prompt", "o")]) { (_: [DBusValue], _: String) throws(DBusError) in
                    throw .notSupported("the collection is the volume; protectfs erase destroys a volume")
                },
                Method(
                    "SearchItems", takes: [Argument("attributes", "a{ss}")], gives: [Argument("results", "ao")]
                ) { [self] (words, _) throws(DBusError) in [.paths(try search(words[0]).map(\.object.text))] },
                Method(
                    "CreateItem",
                    takes: [
                        Argument("properties", "a{sv}"), Argument("secret", ServiceSecret.signature),
                        Argument("replace", "b"),
                    ], gives: [Argument("item", "o"), Argument("prompt", "o")],
                    streaming: { [self] (call, answer) throws(DBusError) in
                        let made = try create(call)
                        try answer.append([.path(made.text), .path(ServicePath.none)])
                    }),
            ],
            properties: [
                Property("Items", "ao", get: { [self] () throws(DBusError) in .paths(try items().map(\.object.text)) }),
                Property("Label", "s", get: { [self] in .string(label) }),
                Property("Locked", "b", get: { [self] in .bool(isLocked) }),
                Property(
                    "Created", "t",
                    get: { [self] () throws(DBusError) in Self.seconds(try items().map(\.created).min() ?? 0) }),
                Property(
                    "Modified", "t",
                    get: { [self] () throws(DBusError) in Self.seconds(try items().map(\.modified).max() ?? 0) }),
            ],
            signals: ["ItemCreated", "ItemDeleted", "ItemChanged"].map { Signal($0, [Argument("item", "o")]) })
    }

    /// Nanoseconds of the store as seconds.
    static func seconds(_ nanoseconds: Int64) -> DBusValue { .uint64(UInt64(clamping: nanoseconds / 1_000_000_000)) }

    /// Makes an item, or replaces the one with the same attributes if the client asks for that.
    private func create(_ call: DBusMessage) throws(DBusError) -> ServicePath {
        let properties = try call.argument()
        let label = properties[key: Self.itemInterface + ".Label"]?.text ?? ""
        let given = properties[key: Self.itemInterface + ".Attributes"] ?? .attributes([:])
        guard let texts = given.attributes else { throw .invalidArguments("attributes are text") }
        try requireMount()
        var made: SecretItem?
        try ServiceSecret.read(call) { (secret, contentType) throws(DBusError) in
            let replaces = try call.argument().bool == true
            let old = replaces ? try items().first { $0.texts.count == texts.count && $0.has(texts) } : nil
            let item: SecretItem
            if let old {
                item = old.with(label: label).with(contentType: contentType)
                try SecretError.explained { () throws(SecretError) in try store.update(old, to: item, secret: secret) }
            } else {
                item = try SecretItem.desktop(texts, label: label, class: newClass).with(contentType: contentType)
                try SecretError.explained { () throws(SecretError) in _ = try store.add(item, secret: secret) }
            }
            try tell(old == nil ? "ItemCreated" : "ItemChanged", item)
            made = item
        }
        guard let made else { throw .failed("no item was made") }
        return .item(made.name)
    }

    // MARK: sessions and prompts

    private var session: DBusInterface {
        DBusInterface(
            Self.sessionInterface,
            // The session has no state that could end.
            methods: [Method("Close") { _, _ in [] }])
    }

    private func prompt(_ number: UInt64) -> DBusInterface {
        DBusInterface(
            Self.promptInterface,
            methods: [
                Method("Prompt", takes: [Argument("window-id", "s")]) { [self] (_, sender) throws(DBusError) in
                    try prompts.show(number, for: sender)
                    return []
                },
                Method("Dismiss") { [self] (_, sender) throws(DBusError) in
                    try complete(try prompts.dismiss(number, for: sender), isDismissed: true)
                    return []
                },
            ],
            signals: [Signal("Completed", [Argument("dismissed", "b"), Argument("result", "v")])])
    }
}
