// Parses item dictionaries into the item's attributes and the requested results. Refuses every key and value that it
// does not know.

// protectfs: plain Foundation: values in memory, no files.
import Foundation
internal import SecretStore
internal import VolumeFormat

/// The contents of an item dictionary.
struct ItemDictionary {
    /// What the dictionary says about synchronizable items.
    enum Synchronizable: Equatable {
        /// Nothing, which means items that are not.
        case unsaid
        case only(Bool)
        case any
    }

    /// The kind of item. Nil if it is not given, or for identities, which are never stored.
    private(set) var kind: SecretKind?
    /// Whether the kind is `kSecClassIdentity`.
    private(set) var isIdentity = false
    /// The attributes by their names in the store, without those in `empty`.
    private(set) var attributes: [String: SecretAttribute] = [:]
    /// The identifying attributes whose value says no more than a missing one, such as empty text or port 0. The default
    /// access group is one of them, because items in it are stored without a group.
    private(set) var empty: Set<String> = []
    private(set) var synchronizable = Synchronizable.unsaid
    private(set) var secret: Data?
    /// The value of `kSecAttrAccessible`, or the accessibility in `kSecAttrAccessControl`.
    private(set) var accessible: String?
    /// What a person must do, from `kSecAttrAccessControl`.
    private(set) var flags: SecAccessControlCreateFlags = []
    /// When the item was stored and changed, in nanoseconds since 1970.
    private(set) var created: Int64?
    private(set) var modified: Int64?
    /// The certificate in `kSecValueRef`.
    private(set) var certificate: SecCertificate?
    /// The items to choose from, by their persistent references; nil for all.
    private(set) var references: [Data]?

    private(set) var wantsData = false
    private(set) var wantsAttributes = false
    private(set) var wantsReference = false
    private(set) var wantsPersistentReference = false
    private(set) var ignoresCase = false
    /// The most items to return; nil for all.
    private(set) var limit: Int? = 1
    /// Whether the dictionary limits the number of items, to another number than all.
    private(set) var hasLimit = false
    /// Whether the dictionary has keys that only a search has.
    private(set) var isSearch = false
    private var keys: [ItemAttribute] = []

    /// The attribute that stores the requested accessibility, because several of them map to one class.
    static let accessibleName = "accessible"

    /// How many kinds of result are requested.
    var results: Int { [wantsData, wantsAttributes, wantsReference, wantsPersistentReference].count { $0 } }

    /// Whether an item with these attributes would be synchronizable.
    var isSynchronizable: Bool { synchronizable == .only(true) }

    /// Parses a dictionary.
    init(_ dictionary: CFDictionary) throws(SecurityFailure) {
        for (key, value) in dictionary {
            // Programs that build dictionaries of AnyHashable mean the value in it.
            guard let key = ((key as? AnyHashable)?.base ?? key) as? CFString else {
                throw SecurityFailure(errSecParam)
            }
            try take(key, (value as? AnyHashable)?.base ?? value)
        }
        if let kind { try check(kind) }
    }

    /// Throws if items of the kind do not have one of the attributes.
    func check(_ kind: SecretKind) throws(SecurityFailure) {
        guard keys.allSatisfy({ $0.kinds.contains(kind) }) else { throw SecurityFailure(errSecNoSuchAttr) }
    }

    private mutating func take(_ key: CFString, _ value: Any) throws(SecurityFailure) {
        if let attribute = ItemAttribute.byKey[key as String] {
            keys.append(attribute)
            let given = try attribute.value(value)
            let isDefaultGroup = attribute.name == "group" && given == .text(KeychainAttribute.standardGroup)
            let identifies = attribute.kinds.contains { $0.identifying.contains(attribute.name) }
            if isDefaultGroup || identifies && given.isEmpty {
                empty.insert(attribute.name)
            } else {
                attributes[attribute.name] = given
            }
            return
        }
        if try takeItem(key, value) { return }
        if try takeResult(key, value) { return }
        try takeUse(key, value)
    }

    /// Keys that describe an item. False for other keys.
    private mutating func takeItem(_ key: CFString, _ value: Any) throws(SecurityFailure) -> Bool {
        switch key {
        case kSecClass:
            switch value as? CFString {
            case kSecClassGenericPassword: kind = .generic
            case kSecClassInternetPassword: kind = .internet
            case kSecClassKey: kind = .key
            case kSecClassCertificate: kind = .certificate
            case kSecClassIdentity: isIdentity = true
            default: throw SecurityFailure(errSecParam)
            }
        case kSecAttrAccessible:
            guard let word = value as? String, Self.protectionClass(word) != nil else {
                throw SecurityFailure(errSecParam)
            }
            try take(accessible: word)
        case kSecAttrAccessControl:
            guard let control = value as? SecAccessControl else { throw SecurityFailure(errSecParam) }
            flags = control.flags
            try take(accessible: control.protection)
        case kSecAttrSynchronizable:
            if value as? CFString == kSecAttrSynchronizableAny {
                synchronizable = .any
                isSearch = true
            } else {
                synchronizable = .only(try ItemAttribute.flag(value))
            }
        case kSecAttrCreationDate: created = try Self.time(value)
        case kSecAttrModificationDate: modified = try Self.time(value)
        case kSecValueData:
            guard let data = value as? Data else { throw SecurityFailure(errSecParam) }
            secret = data
        case kSecValueRef:
            guard let given = value as? SecCertificate else { throw SecurityFailure(errSecParam) }
            certificate = given
            kind = kind ?? .certificate
        default: return false
        }
        return true
    }

    /// Keys of a search and of results. False for other keys.
    private mutating func takeResult(_ key: CFString, _ value: Any) throws(SecurityFailure) -> Bool {
        switch key {
        case kSecReturnData: wantsData = try ItemAttribute.flag(value)
        case kSecReturnAttributes: wantsAttributes = try ItemAttribute.flag(value)
        case kSecReturnRef: wantsReference = try ItemAttribute.flag(value)
        case kSecReturnPersistentRef: wantsPersistentReference = try ItemAttribute.flag(value)
        case kSecValuePersistentRef, kSecAttrPersistentReference:
            guard let data = value as? Data else { throw SecurityFailure(errSecParam) }
            references = [data]
            isSearch = true
        case kSecMatchItemList:
            guard let list = value as? [Data] else { throw SecurityFailure(errSecParam) }
            references = list
            isSearch = true
        case kSecMatchLimit:
            isSearch = true
            switch value as? CFString {
            case kSecMatchLimitOne: limit = 1
            case kSecMatchLimitAll: limit = nil
            case nil:
                let number = try ItemAttribute.number(value)
                guard number > 0 else { throw SecurityFailure(errSecParam) }
                limit = Int(number)
            default: throw SecurityFailure(errSecParam)
            }
            hasLimit = limit != nil
        case kSecMatchCaseInsensitive:
            ignoresCase = try ItemAttribute.flag(value)
            isSearch = true
        case kSecMatchSubjectContains, kSecMatchEmailAddressIfPresent, kSecMatchIssuers, kSecMatchPolicy,
            kSecMatchTrustedOnly, kSecMatchValidOnDate, kSecAttrTokenID:
            throw SecurityFailure(errSecUnimplemented)
        default: return false
        }
        return true
    }

    /// Keys about questions to a person. Nobody is ever asked, so they are checked and change nothing.
    private func takeUse(_ key: CFString, _ value: Any) throws(SecurityFailure) {
        switch key {
        case kSecUseOperationPrompt where value is String: break
        case kSecUseAuthenticationContext where value is LAContext: break
        case kSecUseDataProtectionKeychain, kSecUseNoAuthenticationUI: _ = try ItemAttribute.flag(value)
        case kSecUseAuthenticationUI:
            let words = [kSecUseAuthenticationUIAllow, kSecUseAuthenticationUIFail, kSecUseAuthenticationUISkip]
            guard let word = value as? CFString, words.contains(word) else { throw SecurityFailure(errSecParam) }
        case kSecUseOperationPrompt, kSecUseAuthenticationContext: throw SecurityFailure(errSecParam)
        default: throw SecurityFailure(errSecNoSuchAttr)
        }
    }

    /// A dictionary that a result was copied from has the accessibility twice, and must say the same.
    private mutating func take(accessible word: String) throws(SecurityFailure) {
        guard accessible == nil || accessible == word else { throw SecurityFailure(errSecParam) }
        accessible = word
    }

    private static func time(_ value: Any) throws(SecurityFailure) -> Int64 {
        guard let date = value as? Date, let time = Int64(exactly: (date.timeIntervalSince1970 * 1e9).rounded())
        else { throw SecurityFailure(errSecParam) }
        return time
    }

    // MARK: Accessibility

    /// The class of an accessibility; nil for an unknown value.
    static func protectionClass(_ accessible: String) -> ProtectionClass? {
        switch accessible as CFString {
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
        // These two have no constant. Their items are read as those of complete.
        case .complete, .completeUnlessOpen, .completeWhenUserInactive: kSecAttrAccessibleWhenUnlocked as String
        case .completeUntilFirstUserAuthentication: kSecAttrAccessibleAfterFirstUnlock as String
        case .none: kSecAttrAccessibleAlways as String
        }
    }
}
