// Parses item dictionaries into the item's attributes and the requested results. Refuses every key and value that it
// does not know.

// protectfs: plain Foundation: values in memory, no files.
import Foundation
internal import SecretStore
internal import VolumeFormat

/// A result code as an error.
struct SecurityFailure: Error {
    let status: OSStatus
    init(_ status: OSStatus) { self.status = status }
}

/// The contents of an item dictionary.
struct ItemDictionary {
    /// The kind of item.
    private(set) var kind: SecretKind?
    /// The attributes by their names in the store.
    private(set) var attributes: [String: SecretAttribute] = [:]
    /// The secret.
    private(set) var secret: Data?
    /// The value of `kSecAttrAccessible`.
    private(set) var accessible: String?
    private(set) var wantsData = false
    private(set) var wantsAttributes = false
    private(set) var ignoresCase = false
    /// The most items to return; nil for all.
    private(set) var limit: Int? = 1
    /// Whether the dictionary has a key for the number of items or for the results.
    private(set) var isQuery = false

    /// The names of the attributes in the store.
    static let names: [String: String] = [
        kSecAttrAccount: "account", kSecAttrService: "service", kSecAttrAccessGroup: "group", kSecAttrLabel: "label",
        kSecAttrDescription: "description", kSecAttrComment: "comment", kSecAttrCreator: "creator",
        kSecAttrType: "type", kSecAttrIsInvisible: "invisible", kSecAttrIsNegative: "negative",
        kSecAttrGeneric: "generic", kSecAttrSecurityDomain: "domain", kSecAttrServer: "server",
        kSecAttrProtocol: "protocol", kSecAttrAuthenticationType: "authentication", kSecAttrPort: "port",
        kSecAttrPath: "path",
    ]

    /// The attribute that stores the requested accessibility, because several of them map to one class.
    static let accessibleName = "accessible"

    /// Parses a dictionary.
    init(_ dictionary: [String: Any]) throws(SecurityFailure) {
        for (key, value) in dictionary { try take(key, value) }
    }

    private mutating func take(_ key: String, _ value: Any) throws(SecurityFailure) {
        if let name = Self.names[key] {
            attributes[name] = try Self.attribute(key, value)
            return
        }
        switch key {
        case kSecClass:
            switch value as? String {
            case kSecClassGenericPassword: kind = .generic
            case kSecClassInternetPassword: kind = .internet
            // The store does not keep certificates, keys and identities.
            default: throw SecurityFailure(errSecUnimplemented)
            }
        case kSecAttrAccessible:
            guard let word = value as? String, Self.protectionClass(word) != nil else {
                throw SecurityFailure(errSecParam)
            }
            accessible = word
        case kSecValueData:
            guard let data = value as? Data else { throw SecurityFailure(errSecParam) }
            secret = data
        case kSecReturnData:
            wantsData = try Self.flag(value)
            isQuery = true
        case kSecReturnAttributes:
            wantsAttributes = try Self.flag(value)
            isQuery = true
        case kSecReturnRef, kSecReturnPersistentRef:
            if try Self.flag(value) { throw SecurityFailure(errSecUnimplemented) }
        case kSecMatchLimit:
            isQuery = true
            if let word = value as? String {
                switch word {
                case kSecMatchLimitOne: limit = 1
                case kSecMatchLimitAll: limit = nil
                default: throw SecurityFailure(errSecParam)
                }
            } else {
                let number = try Self.number(value)
                guard number > 0 else { throw SecurityFailure(errSecParam) }
                limit = Int(number)
            }
        case kSecMatchCaseInsensitive: ignoresCase = try Self.flag(value)
        case kSecAttrSynchronizable:
            if value as? String == kSecAttrSynchronizableAny { return }
            // The store does not synchronize items, so a request for it is refused.
            if try Self.flag(value) { throw SecurityFailure(errSecUnimplemented) }
        case kSecUseOperationPrompt, kSecUseDataProtectionKeychain: break
        default: throw SecurityFailure(errSecNoSuchAttr)
        }
    }

    private static func flag(_ value: Any) throws(SecurityFailure) -> Bool {
        guard let flag = value as? Bool else { throw SecurityFailure(errSecParam) }
        return flag
    }

    /// A whole number. Fractions, and numbers that do not fit, are refused.
    private static func number(_ value: Any) throws(SecurityFailure) -> Int64 {
        if let number = value as? any BinaryInteger, let small = Int64(exactly: number) { return small }
        // Swift's Bool also casts to NSNumber.
        guard type(of: value) != Bool.self, let number = value as? NSNumber,
            Double(number.int64Value) == number.doubleValue
        else { throw SecurityFailure(errSecParam) }
        return number.int64Value
    }

    /// The value of an attribute. The key determines the type, because an NSNumber of 1 also casts to Bool.
    private static func attribute(_ key: String, _ value: Any) throws(SecurityFailure) -> SecretAttribute {
        switch key {
        case kSecAttrPort, kSecAttrCreator, kSecAttrType: return .number(try number(value))
        case kSecAttrIsInvisible, kSecAttrIsNegative: return .flag(try flag(value))
        default: break
        }
        switch value {
        case let text as String: return .text(text)
        case let data as Data: return .bytes(Array(data))
        default: throw SecurityFailure(errSecParam)
        }
    }

    /// The class of an accessibility; nil for an unknown value.
    static func protectionClass(_ accessible: String) -> ProtectionClass? {
        switch accessible {
        case kSecAttrAccessibleWhenUnlocked, kSecAttrAccessibleWhenUnlockedThisDeviceOnly,
            kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly:
            .complete
        case kSecAttrAccessibleAfterFirstUnlock, kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly:
            .completeUntilFirstUserAuthentication
        case kSecAttrAccessibleAlways, kSecAttrAccessibleAlwaysThisDeviceOnly: ProtectionClass.none
        default: nil
        }
    }

    /// The accessibility of a stored item. It is the one requested, unless the item's class has been changed since.
    static func accessible(_ item: SecretItem) -> String {
        if case .text(let word) = item.attributes[accessibleName], protectionClass(word) == item.protectionClass {
            return word
        }
        return switch item.protectionClass {
        // completeUnlessOpen has no constant. Its items are read as those of complete.
        case .complete, .completeUnlessOpen: kSecAttrAccessibleWhenUnlocked
        case .completeUntilFirstUserAuthentication: kSecAttrAccessibleAfterFirstUnlock
        case .none: kSecAttrAccessibleAlways
        }
    }

    /// A stored item as a dictionary, without its secret.
    static func dictionary(_ item: SecretItem) -> [String: Any] {
        var result: [String: Any] = [
            kSecClass: item.kind == .generic ? kSecClassGenericPassword : kSecClassInternetPassword,
            kSecAttrAccessible: accessible(item),
            kSecAttrCreationDate: Date(timeIntervalSince1970: Double(item.created) / 1e9),
            kSecAttrModificationDate: Date(timeIntervalSince1970: Double(item.modified) / 1e9),
        ]
        for (key, name) in names {
            switch item.attributes[name] {
            case .text(let text): result[key] = text
            case .bytes(let bytes): result[key] = Data(bytes)
            case .number(let number): result[key] = Int(number)
            case .flag(let flag): result[key] = flag
            case nil: break
            }
        }
        return result
    }
}
