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

    /// The identifying attributes. No two items of the kind have the same values for all of them; a missing attribute
    /// counts as a value.
    package var identifying: [String] {
        switch self {
        case .generic: ["account", "service", "group"]
        case .internet: ["account", "domain", "server", "protocol", "authentication", "port", "path", "group"]
        case .desktop: [DesktopAttribute.identifier]
        }
    }

    /// The kind's name in reports.
    package var name: String {
        switch self {
        case .generic: "generic"
        case .internet: "internet"
        case .desktop: "desktop"
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

    /// A new identifier.
    package static func newIdentifier() -> SecretAttribute {
        let bytes: InlineArray<16, UInt8> = randomInlineBytes()
        return .text(Hexadecimal.text(bytes.indices.map { bytes[$0] }))
    }
}

/// The value of one attribute.
package enum SecretAttribute: Sendable, Hashable {
    /// Text.
    case text(String)
    /// Bytes that need not be text.
    case bytes([UInt8])
    /// A whole number.
    case number(Int64)
    /// A truth value.
    case flag(Bool)

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
    /// When the store made the item, in nanoseconds since 1970.
    package internal(set) var created: Int64 = 0
    /// When the store last changed the item, in nanoseconds since 1970.
    package internal(set) var modified: Int64 = 0
    /// The name of the file that it was read from; empty if it is not stored yet.
    package internal(set) var file = ""

    /// Makes an item to store or to find.
    package init(_ kind: SecretKind, _ attributes: [String: SecretAttribute], class protectionClass: ProtectionClass) {
        self.kind = kind
        self.attributes = attributes
        self.protectionClass = protectionClass
    }

    /// The file name, which is derived from the identifying attributes. Different identities have different names.
    package var name: String {
        var bytes = [kind.rawValue]
        for name in kind.identifying { SecretRecord.write(attributes[name], to: &bytes) }
        let digest = hash256(Self.domain.utf8Span.span, bytes.span)
        return Hexadecimal.text(digest.indices.map { digest[$0] })
    }

    private static let domain = "protectfs secret item 1"
}

/// A query for items. An item must satisfy all conditions.
package struct SecretQuery: Sendable {
    /// The kind; nil for any.
    package var kind: SecretKind?
    /// Attributes that the item must have, with these values.
    package var attributes: [String: SecretAttribute]
    /// Attributes that the item must not have, or only as empty text.
    package var absent: Set<String> = []
    /// Whether to compare text without regard to case.
    package var ignoresCase = false

    /// A query for all items of `kind` with these attributes.
    package init(_ kind: SecretKind? = nil, _ attributes: [String: SecretAttribute] = [:]) {
        self.kind = kind
        self.attributes = attributes
    }

    /// Whether the item satisfies the query.
    func matches(_ item: SecretItem) -> Bool {
        if let kind, kind != item.kind { return false }
        guard absent.allSatisfy({ (item.attributes[$0] ?? .text("")) == .text("") }) else { return false }
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
