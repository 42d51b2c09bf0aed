// The description of a secret: its kind, attributes and class, but not the secret itself.

import SodiumKit
package import VolumeFormat

/// The kinds of item. They have different identifying attributes.
package enum SecretKind: UInt8, Sendable, Hashable, CaseIterable {
    /// A password for an account of a service.
    case generic = 1
    /// A password for an account of a server.
    case internet = 2
    /// An item of a desktop program, with attributes of the program's choice. Two items may have the same.
    case desktop = 3
    /// A cryptographic key, as bytes.
    case key = 4
    case certificate = 5

    /// The identifying attributes. No two items of the kind have the same values for all of them; a missing attribute
    /// counts as a value. Of keychain items, `KeychainAttribute.synchronizable` is part of the identity, too.
    package var identifying: [String] {
        switch self {
        case .generic: ["account", "service", "group"]
        case .internet: ["account", "domain", "server", "protocol", "authentication", "port", "path", "group"]
        case .desktop: [DesktopAttribute.identifier]
        case .key: ["keyClass", "applicationLabel", "tag", "creator", "type", "bits", "effectiveBits", "group"]
        case .certificate: ["certificateType", "issuer", "serial", "group"]
        }
    }

    /// The kind's name in reports.
    package var name: String {
        switch self {
        case .generic: "generic"
        case .internet: "internet"
        case .desktop: "desktop"
        case .key: "key"
        case .certificate: "certificate"
        }
    }
}

/// The attributes of desktop items that the store and the Secret Service use themselves. Programs choose all other names.
package enum DesktopAttribute {
    /// What all of these names begin with.
    package static let prefix = "org.freedesktop.Secret.Item."
    /// A random text, which tells items apart. It stays the same when the program's attributes change.
    package static let identifier = prefix + "Id"
    /// The item's name for people.
    package static let label = prefix + "Label"
    /// The media type of the secret; absent for plain text.
    package static let contentType = prefix + "ContentType"

    /// Random, as hexadecimal digits.
    package static func newIdentifier() -> SecretAttribute {
        let bytes: InlineArray<16, UInt8> = randomInlineBytes()
        return .text(Hexadecimal.text(bytes.indices.map { bytes[$0] }))
    }
}

/// The attributes that `SecItemAdd` and the other functions of the keychain give a meaning of their own.
package enum KeychainAttribute {
    /// Whether a program asked that the item be synchronized: a flag, which is missing if not.
    package static let synchronizable = "synchronizable"
    /// What a persistent reference to the item consists of: the digest that its file name had when it was stored, and 16
    /// random bytes. It stays the same when the identifying attributes change.
    package static let reference = "reference"
    /// The group of items without the attribute `group`.
    package static let standardGroup = "protectfs.default"

    /// A new reference for an item that is not stored yet.
    package static func newReference(to item: SecretItem) -> SecretAttribute {
        let random: InlineArray<16, UInt8> = randomInlineBytes()
        return .bytes(item.digest + random.indices.map { random[$0] })
    }
}

/// The value of one attribute.
package enum SecretAttribute: Sendable, Hashable {
    case text(String)
    /// Bytes that need not be text.
    case bytes([UInt8])
    /// A whole number.
    case number(Int64)
    /// A truth value.
    case flag(Bool)

    /// Whether it says no more than a missing attribute: empty text, no bytes, or 0.
    package var isEmpty: Bool {
        switch self {
        case .text(let text): text.isEmpty
        case .bytes(let bytes): bytes.isEmpty
        case .number(let number): number == 0
        case .flag: false
        }
    }

    /// Text is compared by its bytes, as for the identity. Composed and decomposed "é" are different values.
    package static func == (one: SecretAttribute, other: SecretAttribute) -> Bool {
        switch (one, other) {
        case (.text(let one), .text(let other)): one.utf8.elementsEqual(other.utf8)
        case (.bytes(let one), .bytes(let other)): one == other
        case (.number(let one), .number(let other)): one == other
        case (.flag(let one), .flag(let other)): one == other
        default: false
        }
    }
}

/// An item without its secret.
package struct SecretItem: Sendable, Hashable {
    /// Generic or internet password.
    package var kind: SecretKind
    /// The attributes by name. They are not secret.
    package var attributes: [String: SecretAttribute]
    /// The class of its secret.
    package var protectionClass: ProtectionClass
    /// When the store made the item, in nanoseconds since 1970. Of an item to add, 0 means now.
    package var created: Int64 = 0
    /// When the store last changed the item, in nanoseconds since 1970. Of an item to add, 0 means now.
    package var modified: Int64 = 0
    /// The name of the file that it was read from; empty if it is not stored yet.
    package internal(set) var file = ""

    /// Makes an item to store or to find.
    package init(_ kind: SecretKind, _ attributes: [String: SecretAttribute], class protectionClass: ProtectionClass) {
        self.kind = kind
        self.attributes = attributes
        self.protectionClass = protectionClass
    }

    /// The file name, which is derived from the identifying attributes. Different identities have different names.
    package var name: String { Hexadecimal.text(digest) }

    /// The bytes of `name`. The flag of a synchronizable item is written last. It is the only part that an item may lack,
    /// so items of versions without the flag keep their names.
    var digest: [UInt8] {
        var bytes = [kind.rawValue]
        for name in kind.identifying { SecretRecord.write(attributes[name], to: &bytes) }
        if kind != .desktop, attributes[KeychainAttribute.synchronizable] == .flag(true) {
            SecretRecord.write(.flag(true), to: &bytes)
        }
        let digest = hash256(Self.domain.utf8Span.span, bytes.span)
        return digest.indices.map { digest[$0] }
    }

    /// What a persistent reference to this stored item consists of: its attribute, or the digest in its file name and
    /// zeros. Nil if the item is not stored.
    package var reference: [UInt8]? {
        if case .bytes(let bytes) = attributes[KeychainAttribute.reference] { return bytes }
        guard Self.isName(file) else { return nil }
        return Hexadecimal.decode(file.utf8).map { $0 + [UInt8](repeating: 0, count: 16) }
    }

    private static let domain = "protectfs secret item 1"
}

/// A query for items. An item must satisfy all conditions.
package struct SecretQuery: Sendable {
    /// The kind; nil for any.
    package var kind: SecretKind?
    /// Attributes that the item must have, with these values.
    package var attributes: [String: SecretAttribute]
    /// Attributes that the item must not have, or only as empty text, no bytes or the number 0.
    package var absent: Set<String> = []
    /// Whether to compare text without regard to case.
    package var ignoresCase = false

    /// A query for all items of `kind` with these attributes.
    package init(_ kind: SecretKind? = nil, _ attributes: [String: SecretAttribute] = [:]) {
        self.kind = kind
        self.attributes = attributes
    }

    /// Whether the item satisfies the query.
    package func matches(_ item: SecretItem) -> Bool {
        if let kind, kind != item.kind { return false }
        guard absent.allSatisfy({ item.attributes[$0]?.isEmpty ?? true }) else { return false }
        return attributes.allSatisfy { name, wanted in
            guard let value = item.attributes[name] else { return false }
            if ignoresCase, case .text(let one) = value, case .text(let other) = wanted {
                return one.lowercased().utf8.elementsEqual(other.lowercased().utf8)
            }
            return value == wanted
        }
    }

    /// Reduces several matches to the one that has no identifying attributes beyond those of the query. Returns all if
    /// there is no such item.
    package func narrowed(_ found: [SecretItem]) -> [SecretItem] {
        let exact = found.filter { item in
            item.kind.identifying.allSatisfy { item.attributes[$0] == nil || attributes[$0] != nil }
        }
        return exact.count == 1 ? exact : found
    }
}
