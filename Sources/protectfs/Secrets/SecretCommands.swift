// `protectfs secret set`, `get`, `list` and `delete`: small secrets as files of a mount.

import CLibrary
import CommandSupport
import Control
import HostSystem
import SecretStore
import SodiumKit
import VolumeAccess
import VolumeFormat

extension Option {
    fileprivate static let attribute = Option(
        "attribute", letter: "a", value: Value(name: "K=V", kind: .text), repeats: true,
        help: "an attribute, such as service=mail; an empty value (service=) means that the item has none")
    fileprivate static let internet = Option(
        "internet",
        help: "the item is an Internet password, with the attributes server, protocol, port and path instead of service"
    )
}

extension Command {
    private static let several = "If several items match, give more attributes to choose one."

    static let secretSet = Command(
        "secret set", .secrets, [.mountPoint, .account], "Stores or replaces a secret of at most 64 KiB.",
        details: """
            The command asks for the secret on a terminal, or reads all of standard input or of a file. It stores every byte,
            including a newline at the end; --line leaves that out. Items differ by account, service and group (with
            --internet by account, domain, server, protocol, authentication, port and path). A replaced item keeps its class
            and its other attributes unless you give new ones; comment= removes the attribute comment. Attributes are not
            secret: they can be read while the volume is locked.
            """,
        options: [
            Option(
                "class", value: .protectionClass, standard: "the item's class, complete for a new item",
                help: "protect the secret with this class"),
            .attribute, .internet,
            Option("file", value: .file, help: "read the secret from FILE"),
            Option("line", help: "read only the first line, without its newline"),
            Option("new", help: "fail if the item exists"),
        ],
        examples: [
            .init("protectfs secret set -a service=mail ~/documents me@example.org", "Store a password; ask for it."),
            .init(
                "protectfs secret set --file token --line ~/documents backup",
                "Store the first line of a file, available only while unlocked."),
        ], run: SecretCommands.set)

    static let secretGet = Command(
        "secret get", .secrets, [.mountPoint, .account], "Writes a secret to standard output, every byte of it.",
        details: several, options: [.attribute, .internet],
        examples: [.init("protectfs secret get -a service=mail ~/documents me@example.org", "Print a password.")],
        run: SecretCommands.get)

    static let secretList = Command(
        "secret list", .secrets, [.mountPoint, Operand("ACCOUNT", .text, .optional)],
        "Lists secrets by their attributes, even while the volume is locked.",
        options: [.attribute, .internet, .json],
        examples: [.init("protectfs secret list ~/documents", "List all secrets of a volume.")],
        run: SecretCommands.list)

    static let secretDelete = Command(
        "secret delete", .secrets, [.mountPoint, .account], "Removes a secret, even while the volume is locked.",
        details: several, options: [.attribute, .internet, Option("all", help: "remove every item that matches")],
        examples: [.init("protectfs secret delete -a service=mail ~/documents me@example.org", "Remove a password.")],
        run: SecretCommands.delete)
}

/// The work of the commands on secrets.
enum SecretCommands {
    static func set(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let operands = arguments.operands
        var wanted: ProtectionClass?
        if let word = try arguments.text("class") {
            guard let known = ProtectionClass(name: word) else {
                throw ErrorMessages.unknownClass(HostPath(word))
            }
            wanted = known
        }
        let given = try query(arguments, operands[1])
        let item = SecretItem(given.kind ?? .generic, given.attributes, class: wanted ?? .complete)
        let keeping = SecretStore.Keeping(class: wanted == nil, dropping: given.absent)
        let store = SecretStore(try MountLookup.at(operands[0]))
        let secret = try SecretValueInput.read(arguments, account: operands[1])
        do throws(SecretError) {
            try store.add(item, secret: secret, replacing: arguments.has("new") ? nil : keeping)
        } catch {
            throw explain(error, operands[0], operands[1])
        }
        return .success
    }

    static func get(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let operands = arguments.operands
        let store = SecretStore(try MountLookup.at(operands[0]))
        let query = try query(arguments, operands[1])
        do throws(SecretError) {
            let found = query.narrowed(try store.list(query).items)
            guard var item = found.first else { throw SecretError.notFound }
            guard found.count == 1 else { return refuseSeveral(found.count, operands[1]) }
            Output.print(secret: try store.latestSecret(of: &item))
            if Terminal.isTerminal(1) { Output.line() }
            return .success
        } catch {
            throw explain(error, operands[0], operands[1])
        }
    }

    static func list(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let operands = arguments.operands
        let store = SecretStore(try MountLookup.at(operands[0]))
        let query = try query(arguments, operands.count > 1 ? operands[1] : nil)
        let found: SecretStore.Listing
        do throws(SecretError) { found = try store.list(query) } catch {
            throw explain(error, operands[0], operands[0])
        }
        if arguments.has("json") {
            Output.line(JSONValue.array(found.items.map(json)).line)
        } else if !found.items.isEmpty {
            var table = Table("CLASS", "KIND", "ACCOUNT", "CHANGED", "ATTRIBUTES")
            for item in found.items {
                let hidden = ["account", DesktopAttribute.identifier, KeychainAttribute.reference]
                let others = item.attributes.filter { !hidden.contains($0.key) }.sorted { $0.key < $1.key }
                table.add(
                    "\(item.protectionClass.letter) \(item.protectionClass.shortName)", item.kind.name,
                    item.attributes["account"].map(text) ?? "–", WallClock.local(item.modified / 1_000_000_000),
                    others.map { "\($0.key)=\(text($0.value))" }.joined(separator: " "))
            }
            Output.print(table.text)
        }
        for path in found.damaged {
            Output.fail(.init(.failure, "\(path): not an item, or damaged; run protectfs fsck to see damage"))
        }
        return found.damaged.isEmpty ? .success : .failure
    }

    static func delete(_ arguments: Arguments) throws(CommandFailure) -> ExitCode {
        let operands = arguments.operands
        let store = SecretStore(try MountLookup.at(operands[0]))
        let query = try query(arguments, operands[1])
        do throws(SecretError) {
            let all = try store.list(query).items
            let found = arguments.has("all") ? all : query.narrowed(all)
            guard !found.isEmpty else { throw SecretError.notFound }
            guard found.count == 1 || arguments.has("all") else {
                return refuseSeveral(found.count, operands[1])
            }
            for item in found { try store.delete(item) }
            return .success
        } catch {
            throw explain(error, operands[0], operands[1])
        }
    }

    // MARK: What was asked for

    /// The given attributes, including the account, and those that are given as none.
    private static func query(_ arguments: Arguments, _ account: HostPath?) throws(CommandFailure) -> SecretQuery {
        var found: [String: SecretAttribute] = [:]
        var absent: Set<String> = []
        if let account {
            guard let text = String(validating: account.bytes, as: UTF8.self) else {
                throw .init(.usage, "\(account): the account must be UTF-8 text")
            }
            found["account"] = .text(text)
        }
        for word in arguments.all("attribute") {
            guard let text = String(validating: word.bytes, as: UTF8.self), let equals = text.firstIndex(of: "=") else {
                throw .init(.usage, "--attribute: \"\(word)\" must have the form K=V")
            }
            let name = String(text[..<equals])
            let value = String(text[text.index(after: equals)...])
            // Desktop programs have names such as xdg:schema.
            let isName = name.utf8.allSatisfy { $0 > 0x20 && $0 != 0x7F }
            guard !name.isEmpty, name.utf8.count <= 255, isName else {
                throw .init(
                    .usage,
                    "--attribute: \"\(HostPath(name))\" is not a name; use 1 to 255 bytes without spaces")
            }
            guard found[name] == nil, !absent.contains(name) else {
                throw .init(.usage, "--attribute: \(name) is given twice")
            }
            if value.isEmpty {
                absent.insert(name)
            } else if name == "port" {
                guard let port = UInt16(value) else {
                    throw .init(.usage, "--attribute: port must be a number up to 65535")
                }
                found[name] = .number(Int64(port))
            } else {
                found[name] = .text(value)
            }
        }
        var query = SecretQuery(arguments.has("internet") ? .internet : nil, found)
        query.absent = absent
        return query
    }

    // MARK: What is said

    private static func refuseSeveral(_ count: Int, _ account: HostPath) -> ExitCode {
        Output.error(
            "\(account): \(count) items match; give more attributes to choose one (protectfs secret list shows them)"
        )
        return .failure
    }

    private static func json(_ item: SecretItem) -> JSONValue {
        let attributes = item.attributes.sorted { $0.key < $1.key }
        return .fields([
            ("kind", .string(item.kind.name)), ("class", .string(item.protectionClass.canonicalName)),
            ("created", .integer(item.created / 1_000_000_000)), ("modified", .integer(item.modified / 1_000_000_000)),
            ("attributes", .object(attributes.map { JSONMember($0.key, value($0.value)) })),
            ("bytes", .array(attributes.filter { $0.value.isBytes }.map { .string($0.key) })),
        ])
    }

    private static func value(_ attribute: SecretAttribute) -> JSONValue {
        switch attribute {
        case .text(let text): .string(text)
        case .bytes: .string(text(attribute))
        case .number(let number): .integer(number)
        case .flag(let flag): .bool(flag)
        }
    }

    /// Text unchanged, other bytes as hexadecimal digits.
    private static func text(_ attribute: SecretAttribute) -> String {
        switch attribute {
        case .text(let text): text
        case .bytes(let bytes): Hexadecimal.text(bytes)
        case .number(let number): String(number)
        case .flag(let flag): flag ? "yes" : "no"
        }
    }

    private static func explain(_ error: SecretError, _ mount: HostPath, _ account: HostPath) -> CommandFailure {
        switch error {
        case .locked(let protectionClass):
            .init(
                .locked,
                "\(account): the volume is locked, which closes class \(protectionClass.canonicalName); unlock it first (protectfs unlock \(mount.word))"
            )
        case .duplicate: .init(.failure, "\(account): the item exists; leave out --new to replace it")
        case .notFound:
            .init(.failure, "\(account): no such item; protectfs secret list \(mount.word) shows the items")
        case .changed: .init(.failure, "\(account): another program has changed the item at the same time; try again")
        case .tooLong: .init(.failure, "\(account): too long; a secret can have \(SecretStore.largestSecret) bytes")
        case .tooManyAttributes:
            .init(.failure, "\(account): the attributes exceed 3 KiB; use fewer or shorter ones")
        case .notOwn(let path):
            .init(
                .failure,
                "\(path): not a directory that belongs to you and that only you can write to; correct its owner and mode first"
            )
        case .system(let error):
            switch error.code {
            case ENOTCONN:
                .init(
                    .notMounted,
                    "\(mount): the daemon of the mount has died; remove the mount with protectfs unmount \(mount.word)"
                )
            case EROFS: .init(.failure, "\(mount): the mount is read-only")
            default: ErrorMessages.system(error)
            }
        case .memory(let error): ErrorMessages.memory(error)
        }
    }
}

extension SecretAttribute {
    /// Whether it is not text, and so shown as hexadecimal digits.
    fileprivate var isBytes: Bool {
        if case .bytes = self { true } else { false }
    }
}
