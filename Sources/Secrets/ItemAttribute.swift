// The attributes of items: their keys, their names in the store, their types, and the kinds of item that have them.

// protectfs: plain Foundation: values in memory, no files.
import Foundation
internal import SecretStore

/// A result code as an error.
struct SecurityFailure: Error {
    let status: OSStatus
    init(_ status: OSStatus) { self.status = status }
}

/// One attribute that items of the store have.
struct ItemAttribute {
    /// The types of values.
    enum Form {
        /// Text or bytes. What the program gives is what it gets.
        case content
        /// A whole number. Text that is not one is kept as text, as on an iPhone.
        case number
        case flag
    }

    /// The key in dictionaries.
    let key: String
    /// The name in the store.
    let name: String
    let form: Form
    /// The kinds of item that have it.
    let kinds: Set<SecretKind>

    private init(_ key: CFString, _ name: String, _ form: Form = .content, _ kinds: Set<SecretKind>) {
        self.key = key as String
        self.name = name
        self.form = form
        self.kinds = kinds
    }

    private static let every: Set<SecretKind> = [.generic, .internet, .key, .certificate]
    private static let passwords: Set<SecretKind> = [.generic, .internet]

    /// All attributes.
    static let all: [ItemAttribute] = [
        .init(kSecAttrAccessGroup, "group", every), .init(kSecAttrLabel, "label", every),
        .init(kSecAttrAccount, "account", passwords), .init(kSecAttrDescription, "description", passwords),
        .init(kSecAttrComment, "comment", passwords), .init(kSecAttrIsInvisible, "invisible", .flag, passwords),
        .init(kSecAttrIsNegative, "negative", .flag, passwords),
        .init(kSecAttrCreator, "creator", .number, [.generic, .internet, .key]),
        .init(kSecAttrType, "type", .number, [.generic, .internet, .key]),
        .init(kSecAttrService, "service", [.generic]), .init(kSecAttrGeneric, "generic", [.generic]),
        .init(kSecAttrSecurityDomain, "domain", [.internet]), .init(kSecAttrServer, "server", [.internet]),
        .init(kSecAttrProtocol, "protocol", [.internet]),
        .init(kSecAttrAuthenticationType, "authentication", [.internet]),
        .init(kSecAttrPort, "port", .number, [.internet]), .init(kSecAttrPath, "path", [.internet]),
        .init(kSecAttrKeyClass, "keyClass", .number, [.key]),
        .init(kSecAttrApplicationLabel, "applicationLabel", [.key]), .init(kSecAttrApplicationTag, "tag", [.key]),
        .init(kSecAttrKeySizeInBits, "bits", .number, [.key]),
        .init(kSecAttrEffectiveKeySize, "effectiveBits", .number, [.key]),
        .init(kSecAttrIsPermanent, "permanent", .flag, [.key]),
        .init(kSecAttrCanEncrypt, "encrypts", .flag, [.key]), .init(kSecAttrCanDecrypt, "decrypts", .flag, [.key]),
        .init(kSecAttrCanDerive, "derives", .flag, [.key]), .init(kSecAttrCanSign, "signs", .flag, [.key]),
        .init(kSecAttrCanVerify, "verifies", .flag, [.key]), .init(kSecAttrCanWrap, "wraps", .flag, [.key]),
        .init(kSecAttrCanUnwrap, "unwraps", .flag, [.key]),
        .init(kSecAttrCertificateType, "certificateType", .number, [.certificate]),
        .init(kSecAttrCertificateEncoding, "certificateEncoding", .number, [.certificate]),
        .init(kSecAttrSubject, "subject", [.certificate]), .init(kSecAttrIssuer, "issuer", [.certificate]),
        .init(kSecAttrSerialNumber, "serial", [.certificate]),
    ]

    /// All attributes by their keys.
    static let byKey: [String: ItemAttribute] = Dictionary(uniqueKeysWithValues: all.map { ($0.key, $0) })

    private init(_ key: CFString, _ name: String, _ kinds: Set<SecretKind>) { self.init(key, name, .content, kinds) }

    /// The value for the store.
    func value(_ given: Any) throws(SecurityFailure) -> SecretAttribute {
        switch form {
        case .number:
            if let text = given as? String, Self.number(text) == nil { return .text(text) }
            return .number(try Self.number(given))
        case .flag: return .flag(try Self.flag(given))
        case .content: break
        }
        switch given {
        case let text as String: return .text(text)
        case let data as Data: return .bytes(Array(data))
        default: throw SecurityFailure(errSecParam)
        }
    }

    /// The value for a dictionary. Flags become numbers that cast to `Bool` and to `Int`, as on an iPhone.
    static func object(_ value: SecretAttribute) -> Any {
        switch value {
        case .text(let text): text
        case .bytes(let bytes): Data(bytes)
        case .number(let number): Int(number)
        case .flag(let flag): NSNumber(value: flag ? 1 : 0)
        }
    }

    /// A truth value: a `Bool`, or a number that is 0 or 1.
    static func flag(_ value: Any) throws(SecurityFailure) -> Bool {
        guard let flag = value as? Bool else { throw SecurityFailure(errSecParam) }
        return flag
    }

    /// A whole number. A truth value is 0 or 1, and text that is written as a number counts as it. Fractions, and numbers
    /// that do not fit, are refused.
    static func number(_ value: Any) throws(SecurityFailure) -> Int64 {
        if let number = value as? any BinaryInteger, let small = Int64(exactly: number) { return small }
        if let text = value as? String {
            guard let number = Self.number(text) else { throw SecurityFailure(errSecParam) }
            return number
        }
        if let flag = value as? Bool { return flag ? 1 : 0 }
        guard let number = value as? NSNumber, Double(number.int64Value) == number.doubleValue
        else { throw SecurityFailure(errSecParam) }
        return number.int64Value
    }

    /// The number that a text is written as; nil if it is written in another way, such as with a leading zero.
    private static func number(_ text: String) -> Int64? {
        Int32(text).flatMap { String($0) == text ? Int64($0) : nil }
    }
}
