// What a small secret is known by: kind, attributes, class; everything but the secret itself.

import SodiumKit
package import VolumeFormat

/// The two kinds of password, told apart by what makes an item the same as another.
package enum SecretKind: UInt8, Sendable, Hashable, CaseIterable {
    /// One account of a service.
    case generic = 1
    /// One account of a server.
    case internet = 2

    /// The attributes that no two items of the kind have all the same; one that is missing counts as a value.
    package var identifying: [String] {
        switch self {
        case .generic: ["account", "service", "group"]
        case .internet: ["account", "domain", "server", "protocol", "authentication", "port", "path", "group"]
        }
    }

    /// The word for it in reports.
    package var name: String {
        switch self {
        case .generic: "generic"
        case .internet: "internet"
        }
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
    /// Yes or no.
    case flag(Bool)

    /// The same bytes, as for the identity: "é" composed and decomposed are two values.
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
    /// Everything that is known of it, by name; not secret.
    package var attributes: [String: SecretAttribute]
    /// The class that its secret is kept in.
    package var protectionClass: ProtectionClass
    /// Nanoseconds since 1970; set by the store.
    package internal(set) var created: Int64 = 0
    /// Nanoseconds since 1970; set by the store.
    package internal(set) var modified: Int64 = 0
    /// The file it was read from; empty for one that is not stored yet.
    var file = ""

    /// An item that is to be stored or looked for.
    package init(_ kind: SecretKind, _ attributes: [String: SecretAttribute], class protectionClass: ProtectionClass) {
        self.kind = kind
        self.attributes = attributes
        self.protectionClass = protectionClass
    }

    /// The file name that its identity gives: the same for the same identifying attributes, and for no others.
    var name: String {
        var bytes = [kind.rawValue]
        for name in kind.identifying { SecretRecord.write(attributes[name], to: &bytes) }
        let digest = hash256(Self.domain.utf8Span.span, bytes.span)
        return Hexadecimal.text(digest.indices.map { digest[$0] })
    }

    private static let domain = "protectfs secret item 1"
}

/// What items are asked for: those that have all of this.
package struct SecretQuery: Sendable {
    /// The kind; nil for any.
    package var kind: SecretKind?
    /// Attributes that have to be there with these values.
    package var attributes: [String: SecretAttribute]
    /// Attributes that must not be there, or be empty text.
    package var absent: Set<String> = []
    /// Whether text is compared without regard to case.
    package var ignoresCase = false

    /// Everything of `kind` with these attributes.
    package init(_ kind: SecretKind? = nil, _ attributes: [String: SecretAttribute] = [:]) {
        self.kind = kind
        self.attributes = attributes
    }

    /// Whether the item is one of those.
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

    /// Of several that match, the one whose identifying attributes are all among those given; else all.
    package func narrowed(_ found: [SecretItem]) -> [SecretItem] {
        let exact = found.filter { item in
            item.kind.identifying.allSatisfy { item.attributes[$0] == nil || attributes[$0] != nil }
        }
        return exact.count == 1 ? exact : found
    }
}
