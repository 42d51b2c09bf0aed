// Shows an item of the store as the Secret Service has it: a label and attributes that are all text.

import DBus
import HostSystem
import SecretStore
import VolumeFormat

extension SecretItem {
    var object: ServicePath { .item(file) }

    /// The attributes as text, without those that the service uses itself. Numbers and flags are written as words, bytes as
    /// hexadecimal digits.
    var texts: [String: String] {
        var texts: [String: String] = [:]
        for (name, value) in attributes where !isReserved(name) {
            texts[name] =
                switch value {
                case .text(let text): text
                case .bytes(let bytes): Hexadecimal.text(bytes)
                case .number(let number): String(number)
                case .flag(let flag): flag ? "true" : "false"
                }
        }
        return texts
    }

    /// The name for people. An item of the command has no label unless its attribute `label` is given.
    var label: String {
        if case .text(let text) = attributes[labelName] { return text }
        return ["service", "server", "account"].lazy.compactMap { texts[$0] }.first { !$0.isEmpty } ?? ""
    }

    /// The media type of the secret.
    var contentType: String {
        if case .text(let text) = attributes[DesktopAttribute.contentType] { return text }
        return Self.plainText
    }

    /// The item with another label.
    func with(label: String) -> SecretItem {
        var item = self
        item.attributes[labelName] = label.isEmpty ? nil : .text(label)
        return item
    }

    /// The item with another media type. Only desktop items have one.
    func with(contentType: String) -> SecretItem {
        guard kind == .desktop else { return self }
        var item = self
        item.attributes[DesktopAttribute.contentType] = contentType == Self.plainText ? nil : .text(contentType)
        return item
    }

    /// The item with other attributes of the program.
    ///
    /// - Throws: for an item that a command or a program of Security.framework made: its attributes have types and say which
    ///   item it is.
    func with(texts: [String: String]) throws(DBusError) -> SecretItem {
        guard kind == .desktop else {
            throw .notSupported("protectfs secret made this item; its attributes are changed there")
        }
        try Self.check(texts)
        var item = self
        item.attributes = attributes.filter { isReserved($0.key) }
        for (name, text) in texts { item.attributes[name] = .text(text) }
        return item
    }

    /// A new item of a program.
    static func desktop(
        _ texts: [String: String], label: String, class protectionClass: ProtectionClass
    ) throws(DBusError) -> SecretItem {
        let identifier = [DesktopAttribute.identifier: DesktopAttribute.newIdentifier()]
        return try SecretItem(.desktop, identifier, class: protectionClass).with(texts: texts).with(label: label)
    }

    /// Whether the item has all of these attributes. Text is compared by its bytes.
    func has(_ wanted: [String: String]) -> Bool {
        let own = texts
        return wanted.allSatisfy { name, text in own[name].map { $0.utf8.elementsEqual(text.utf8) } ?? false }
    }

    private static let plainText = "text/plain"

    private var labelName: String { kind == .desktop ? DesktopAttribute.label : "label" }

    private func isReserved(_ name: String) -> Bool {
        kind == .desktop
            ? name.hasPrefix(DesktopAttribute.prefix) : name == labelName || name == KeychainAttribute.reference
    }

    private static func check(_ texts: [String: String]) throws(DBusError) {
        for name in texts.keys where name.isEmpty || name.hasPrefix(DesktopAttribute.prefix) {
            throw .invalidArguments("an attribute cannot have the name \"\(name)\"")
        }
    }
}

extension DBusValue {
    /// Attributes (`a{ss}`).
    static func attributes(_ texts: [String: String]) -> DBusValue {
        let entries = texts.sorted { $0.key < $1.key }.map { Entry(.string($0.key), .string($0.value)) }
        return .dictionary(key: "s", value: "s", entries)
    }

    /// Attributes that came with a call.
    var attributes: [String: String]? {
        guard case .dictionary("s", "s", let entries) = self else { return nil }
        let pairs = entries.compactMap { entry in entry.key.text.flatMap { key in entry.value.text.map { (key, $0) } } }
        // The last of two values of a name counts.
        return Dictionary(pairs) { _, last in last }
    }
}

extension DBusError {
    /// The class of the secret is closed.
    static let isLocked = DBusError("org.freedesktop.Secret.Error.IsLocked", "the volume is locked")
    /// No such item, collection or prompt.
    static let noSuchObject = DBusError("org.freedesktop.Secret.Error.NoSuchObject", "no such object")
    /// The client has not opened this session.
    static let noSession = DBusError("org.freedesktop.Secret.Error.NoSession", "no such session")

    /// The error of the bus for one of the store.
    init(_ error: SecretError) {
        switch error {
        case .locked: self = .isLocked
        case .notFound: self = .noSuchObject
        case .changed: self = .failed("another program has changed the item at the same time")
        case .tooLong: self = .limit("a secret can have \(SecretStore.largestSecret) bytes")
        case .tooManyAttributes: self = .limit("label and attributes exceed 3 KiB")
        case .duplicate: self = .failed("an item with the same identifying attributes exists")
        case .notOwn: self = .failed("other users may write to the directory of the secrets")
        case .system(let error): self = .failed(error.reason)
        case .memory: self = .failed("no locked memory is available")
        }
    }

    /// More than a limit allows.
    static func limit(_ message: String) -> DBusError {
        DBusError("org.freedesktop.DBus.Error.LimitsExceeded", message)
    }

    /// Any other failure.
    static func failed(_ message: String) -> DBusError { DBusError("org.freedesktop.DBus.Error.Failed", message) }
}

extension SecretError {
    /// Runs a call of the store for a client.
    static func explained<Result: ~Copyable>(
        _ body: () throws(SecretError) -> Result
    ) throws(DBusError) -> Result {
        do throws(SecretError) { return try body() } catch { throw DBusError(error) }
    }
}
