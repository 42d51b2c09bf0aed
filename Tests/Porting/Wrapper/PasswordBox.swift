// A keychain wrapper with chained settings, subscripts and attributes, in the manner of the widely used ones.

// Wrappers for an iPhone are written so.
// swift-format-ignore-file: NeverForceUnwrap

import FileProtection
import Secrets

private let classKey = String(kSecClass)
private let matchLimit = String(kSecMatchLimit)

/// The attributes of an item, read by name.
struct ItemProperties {
    fileprivate let values: [String: Any]

    var kind: String? { values[classKey] as? String }
    var data: Data? { values[String(kSecValueData)] as? Data }
    var reference: Data? { values[String(kSecValueRef)] as? Data }
    var persistentReference: Data? { values[String(kSecValuePersistentRef)] as? Data }
    var accessible: String? { values[String(kSecAttrAccessible)] as? String }
    var accessControl: SecAccessControl? { values[String(kSecAttrAccessControl)].map { $0 as! SecAccessControl } }
    var accessGroup: String? { values[String(kSecAttrAccessGroup)] as? String }
    var synchronizable: Bool? { values[String(kSecAttrSynchronizable)] as? Bool }
    var created: Date? { values[String(kSecAttrCreationDate)] as? Date }
    var modified: Date? { values[String(kSecAttrModificationDate)] as? Date }
    var description: String? { values[String(kSecAttrDescription)] as? String }
    var comment: String? { values[String(kSecAttrComment)] as? String }
    var label: String? { values[String(kSecAttrLabel)] as? String }
    var creator: Int? { values[String(kSecAttrCreator)] as? Int }
    var type: NSNumber? { values[String(kSecAttrType)] as? NSNumber }
    var isInvisible: Bool? { values[String(kSecAttrIsInvisible)] as? Bool }
    var isNegative: Bool? { values[String(kSecAttrIsNegative)] as? Bool }
    var account: String? { values[String(kSecAttrAccount)] as? String }
    var service: String? { values[String(kSecAttrService)] as? String }
    var generic: Data? { values[String(kSecAttrGeneric)] as? Data }
    var securityDomain: String? { values[String(kSecAttrSecurityDomain)] as? String }
    var server: String? { values[String(kSecAttrServer)] as? String }
    var webProtocol: String? { values[String(kSecAttrProtocol)] as? String }
    var authentication: String? { values[String(kSecAttrAuthenticationType)] as? String }
    var port: Int? { values[String(kSecAttrPort)] as? Int }
    var path: String? { values[String(kSecAttrPath)] as? String }

    subscript(key: String) -> Any? { values[key] }
}

extension CFError {
    /// The error as an NSError, built from its parts.
    var rebuilt: NSError {
        let information = CFErrorCopyUserInfo(self) as? [String: Any]
        return NSError(domain: CFErrorGetDomain(self) as String, code: CFErrorGetCode(self), userInfo: information)
    }
}

/// A set of items with one service or server. Each setting gives a changed copy.
struct PasswordBox {
    var kind = ItemKind.generic
    var service = ""
    var accessGroup: String?
    var server: URL?
    var webProtocol = WebProtocol.https
    var authentication = WebAuthentication.standard
    var availability = Availability.afterFirstUnlock
    var flags: SecAccessControlCreateFlags?
    var isSynchronizable = false
    var label: String?
    var comment: String?
    var prompt: String?
    var context: LAContext?
    var more: [String: Any] = [:]

    init(service: String, accessGroup: String? = nil) {
        self.service = service
        self.accessGroup = accessGroup
    }

    init(server: URL, _ webProtocol: WebProtocol, _ authentication: WebAuthentication = .standard) {
        kind = .internet
        self.server = server
        self.webProtocol = webProtocol
        self.authentication = authentication
    }

    /// A copy with other settings.
    func with(_ change: (inout PasswordBox) -> Void) -> PasswordBox {
        var copy = self
        change(&copy)
        return copy
    }

    // MARK: Reading

    func data(_ key: String, anySynchronizable: Bool = true) throws -> Data? {
        var query = query(anySynchronizable: anySynchronizable)
        query[matchLimit] = kSecMatchLimitOne
        query[String(kSecReturnData)] = kCFBooleanTrue
        query[String(kSecAttrAccount)] = key
        var result: AnyObject?
        let status = SecItemCopyMatching(query as CFDictionary, &result)
        switch status {
        case errSecSuccess:
            guard let data = result as? Data else { throw Self.failure(errSecInternalComponent) }
            return data
        case errSecItemNotFound: return nil
        default: throw Self.failure(status)
        }
    }

    func text(_ key: String) throws -> String? {
        guard let data = try data(key) else { return nil }
        guard let text = String(data: data, encoding: .utf8) else { throw Self.failure(errSecDecode) }
        return text
    }

    func properties(_ key: String) throws -> ItemProperties? {
        var query = query(anySynchronizable: true)
        query[matchLimit] = kSecMatchLimitOne
        for wanted in [kSecReturnData, kSecReturnAttributes, kSecReturnRef, kSecReturnPersistentRef] {
            query[String(wanted)] = kCFBooleanTrue
        }
        query[String(kSecAttrAccount)] = key
        var result: AnyObject?
        switch SecItemCopyMatching(query as CFDictionary, &result) {
        case errSecSuccess: return (result as? [String: Any]).map { ItemProperties(values: $0) }
        case errSecItemNotFound: return nil
        case let status: throw Self.failure(status)
        }
    }

    func contains(_ key: String, withoutAsking: Bool = false) throws -> Bool {
        var query = query(anySynchronizable: true)
        query[String(kSecAttrAccount)] = key
        if withoutAsking { query[String(kSecUseAuthenticationUI)] = kSecUseAuthenticationUIFail }
        switch SecItemCopyMatching(query as CFDictionary, nil) {
        case errSecSuccess: return true
        case errSecInteractionNotAllowed: return withoutAsking
        case errSecItemNotFound: return false
        case let status: throw Self.failure(status)
        }
    }

    // MARK: Changing

    func set(_ text: String, _ key: String) throws { try set(Data(text.utf8), key) }

    func set(_ value: Data, _ key: String) throws {
        var query = query(anySynchronizable: true)
        query[String(kSecAttrAccount)] = key
        query[String(kSecUseAuthenticationUI)] = kSecUseAuthenticationUIFail
        switch SecItemCopyMatching(query as CFDictionary, nil) {
        case errSecSuccess, errSecInteractionNotAllowed:
            query[String(kSecUseAuthenticationUI)] = nil
            let status = SecItemUpdate(query as CFDictionary, try values(key: nil, value) as CFDictionary)
            guard status == errSecSuccess else { throw Self.failure(status) }
        case errSecItemNotFound:
            let status = SecItemAdd(try values(key: key, value) as CFDictionary, nil)
            guard status == errSecSuccess else { throw Self.failure(status) }
        case let status: throw Self.failure(status)
        }
    }

    func remove(_ key: String) throws {
        var query = query(anySynchronizable: true)
        query[String(kSecAttrAccount)] = key
        let status = SecItemDelete(query as CFDictionary)
        guard status == errSecSuccess || status == errSecItemNotFound else { throw Self.failure(status) }
    }

    func removeAll() throws {
        let status = SecItemDelete(query(anySynchronizable: true) as CFDictionary)
        guard status == errSecSuccess || status == errSecItemNotFound else { throw Self.failure(status) }
    }

    subscript(key: String) -> String? {
        get { try? text(key) }
        nonmutating set {
            if let newValue { try? set(newValue, key) } else { try? remove(key) }
        }
    }

    subscript(data key: String) -> Data? { try? data(key) }

    // MARK: All items

    /// The service or server, and the account, of all items of a kind.
    static func allKeys(_ kind: ItemKind) -> [(String, String)] {
        items([
            classKey: kind.word, String(kSecAttrSynchronizable): kSecAttrSynchronizableAny,
            matchLimit: kSecMatchLimitAll,
            String(kSecReturnAttributes): kCFBooleanTrue as Any,
        ]).map { item in
            let place = kind == .generic ? kSecAttrService : kSecAttrServer
            return (item[place as String] as? String ?? "", item[kSecAttrAccount as String] as? String ?? "")
        }
    }

    /// The account of every item of this box.
    func allKeys() -> [String] { allItems(withData: false).compactMap { $0[kSecAttrAccount as String] as? String } }

    func allItems(withData: Bool) -> [[String: Any]] {
        var query = query(anySynchronizable: true)
        query[matchLimit] = kSecMatchLimitAll
        query[String(kSecReturnAttributes)] = kCFBooleanTrue
        if withData { query[String(kSecReturnData)] = kCFBooleanTrue }
        return Self.items(query)
    }

    private static func items(_ query: [String: Any]) -> [[String: Any]] {
        var result: AnyObject?
        let status = SecItemCopyMatching(query as CFDictionary, &result)
        guard status == errSecSuccess, let items = result as? [[String: Any]] else { return [] }
        return items
    }

    // MARK: Dictionaries

    private func query(anySynchronizable: Bool) -> [String: Any] {
        var query: [String: Any] = [classKey: kind.word]
        query[String(kSecAttrSynchronizable)] =
            anySynchronizable ? kSecAttrSynchronizableAny : isSynchronizable ? kCFBooleanTrue : kCFBooleanFalse
        switch kind {
        case .generic:
            query[String(kSecAttrService)] = service
            if let accessGroup { query[String(kSecAttrAccessGroup)] = accessGroup }
        case .internet:
            query[String(kSecAttrServer)] = server?.host
            query[String(kSecAttrPort)] = server?.port
            query[String(kSecAttrProtocol)] = webProtocol.word
            query[String(kSecAttrAuthenticationType)] = authentication.word
        }
        if let prompt { query[String(kSecUseOperationPrompt)] = prompt }
        if let context { query[String(kSecUseAuthenticationContext)] = context }
        return query
    }

    private func values(key: String?, _ value: Data) throws -> [String: Any] {
        var values: [String: Any] = [:]
        if let key {
            values = query(anySynchronizable: false)
            values[String(kSecAttrAccount)] = key
        }
        values[String(kSecValueData)] = value
        if let label { values[String(kSecAttrLabel)] = label }
        if let comment { values[String(kSecAttrComment)] = comment }
        if let flags {
            var error: Unmanaged<CFError>?
            guard
                let control = SecAccessControlCreateWithFlags(
                    kCFAllocatorDefault, availability.rawValue as CFTypeRef, flags, &error)
            else {
                throw error?.takeRetainedValue().rebuilt ?? Self.failure(errSecInternalComponent)
            }
            values[String(kSecAttrAccessControl)] = control
        } else {
            values[String(kSecAttrAccessible)] = availability.rawValue
        }
        values[String(kSecAttrSynchronizable)] = isSynchronizable ? kCFBooleanTrue : kCFBooleanFalse
        return values.merging(more) { $1 }
    }

    static func failure(_ status: OSStatus) -> NSError {
        let message = SecCopyErrorMessageString(status, nil) as String?
        return NSError(
            domain: "PasswordBox", code: Int(status),
            userInfo: [NSLocalizedDescriptionKey: message ?? "OSStatus \(status)"])
    }
}
