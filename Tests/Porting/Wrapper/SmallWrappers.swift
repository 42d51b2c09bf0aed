// Three small wrappers in other manners: delete then add; archived objects under Data accounts; injected functions.

// Wrappers for an iPhone are written so.
// swift-format-ignore-file: NeverForceUnwrap

import FileProtection
import Secrets

/// Deletes before it adds, and remembers the last code.
final class QuickBox {
    private(set) var lastResult: OSStatus = noErr
    var accessGroup: String?
    var isSynchronizable = false
    private let lock = NSLock()

    @discardableResult
    func set(_ value: String, _ key: String, _ accessible: CFString = kSecAttrAccessibleWhenUnlocked) -> Bool {
        lock.lock()
        defer { lock.unlock() }
        SecItemDelete(query([kSecAttrAccount as String: key], adding: false) as CFDictionary)
        let item = query(
            [
                kSecAttrAccount as String: key, kSecValueData as String: Data(value.utf8),
                kSecAttrAccessible as String: accessible as String,
            ], adding: true)
        lastResult = SecItemAdd(item as CFDictionary, nil)
        return lastResult == noErr
    }

    func data(_ key: String, asReference: Bool = false) -> Data? {
        var query = query([kSecAttrAccount as String: key, kSecMatchLimit as String: kSecMatchLimitOne], adding: false)
        query[(asReference ? kSecReturnPersistentRef : kSecReturnData) as String] = kCFBooleanTrue
        var result: AnyObject?
        lastResult = withUnsafeMutablePointer(to: &result) {
            SecItemCopyMatching(query as CFDictionary, UnsafeMutablePointer($0))
        }
        return lastResult == noErr ? result as? Data : nil
    }

    var allKeys: [String] {
        let query = query(
            [
                kSecReturnData as String: true, kSecReturnAttributes as String: true,
                kSecReturnPersistentRef as String: true, kSecMatchLimit as String: kSecMatchLimitAll,
            ], adding: false)
        var result: AnyObject?
        lastResult = SecItemCopyMatching(query as CFDictionary, &result)
        return (result as? [[String: Any]])?.compactMap { $0[kSecAttrAccount as String] as? String } ?? []
    }

    func delete(_ key: String) -> Bool {
        lastResult = SecItemDelete(query([kSecAttrAccount as String: key], adding: false) as CFDictionary)
        return lastResult == noErr
    }

    func clear() -> Bool {
        lastResult = SecItemDelete(query([:], adding: false) as CFDictionary)
        return lastResult == noErr
    }

    private func query(_ values: [String: Any], adding: Bool) -> [String: Any] {
        var query = values
        query[kSecClass as String] = kSecClassGenericPassword
        if let accessGroup { query[kSecAttrAccessGroup as String] = accessGroup }
        if isSynchronizable { query[kSecAttrSynchronizable as String] = adding ? true : kSecAttrSynchronizableAny }
        return query
    }
}

/// Accounts and generic attributes are bytes; values are archived.
struct ArchiveBox {
    let service: String

    func set(_ value: NSNumber, _ key: String) -> Bool {
        guard let data = try? NSKeyedArchiver.archivedData(withRootObject: value, requiringSecureCoding: true) else {
            return false
        }
        var item = query(key)
        item[kSecValueData as String] = data
        item[kSecAttrAccessible as String] = kSecAttrAccessibleWhenUnlocked
        let status = SecItemAdd(item as CFDictionary, nil)
        guard status == errSecDuplicateItem else { return status == errSecSuccess }
        return SecItemUpdate(query(key) as CFDictionary, [kSecValueData: data] as CFDictionary) == errSecSuccess
    }

    func number(_ key: String) -> NSNumber? {
        var query = query(key)
        query[kSecMatchLimit as String] = kSecMatchLimitOne
        query[kSecReturnData as String] = kCFBooleanTrue
        var result: CFTypeRef?
        guard SecItemCopyMatching(query as CFDictionary, &result) == errSecSuccess, let data = result as? Data else {
            return nil
        }
        return try? NSKeyedUnarchiver.unarchivedObject(ofClass: NSNumber.self, from: data)
    }

    func accessibility(_ key: String) -> Availability? {
        var query = query(key)
        query[kSecReturnAttributes as String] = kCFBooleanTrue
        var result: AnyObject?
        guard SecItemCopyMatching(query as CFDictionary, &result) == errSecSuccess,
            let attributes = result as? [String: AnyObject],
            let word = attributes[kSecAttrAccessible as String] as? String
        else { return nil }
        return Availability(rawValue: word as CFString)
    }

    func allKeys() -> Set<String> {
        let query: [String: Any] = [
            kSecClass as String: kSecClassGenericPassword, kSecAttrService as String: service,
            kSecReturnAttributes as String: kCFBooleanTrue!, kSecMatchLimit as String: kSecMatchLimitAll,
        ]
        var result: AnyObject?
        guard SecItemCopyMatching(query as CFDictionary, &result) == errSecSuccess,
            let items = result as? [[AnyHashable: Any]]
        else { return [] }
        return Set(
            items.compactMap { $0[kSecAttrAccount as String] as? Data }.compactMap { String(data: $0, encoding: .utf8) }
        )
    }

    private func query(_ key: String) -> [String: Any] {
        let identifier = Data(key.utf8)
        return [
            kSecClass as String: kSecClassGenericPassword, kSecAttrService as String: service,
            kSecAttrGeneric as String: identifier, kSecAttrAccount as String: identifier,
            kSecAttrSynchronizable as String: kCFBooleanFalse!,
        ]
    }
}

/// Takes the functions of Security as values, as wrappers do that are tested with others.
struct InjectedBox {
    typealias Retrieve = (_ query: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus
    typealias Remove = (_ query: CFDictionary) -> OSStatus

    let service: String
    var flags: SecAccessControlCreateFlags?
    var retrieve: Retrieve = SecItemCopyMatching
    var remove: Remove = SecItemDelete

    func set(_ value: String, _ key: String) -> OSStatus {
        var item = query(key)
        item[kSecValueData as String] = Data(value.utf8)
        if let flags,
            let control = SecAccessControlCreateWithFlags(
                kCFAllocatorDefault, kSecAttrAccessibleWhenUnlocked, flags, nil)
        {
            item[kSecAttrAccessControl as String] = control
        } else {
            item[kSecAttrAccessible as String] = kSecAttrAccessibleAfterFirstUnlock
        }
        let status = SecItemAdd(item as CFDictionary, nil)
        guard status == errSecDuplicateItem else { return status }
        let change: [String: Any] = [kSecValueData as String: Data(value.utf8)]
        return SecItemUpdate(query(key) as CFDictionary, change as CFDictionary)
    }

    func get(_ key: String) -> (OSStatus, Data?) {
        var query = query(key)
        query[kSecReturnData as String] = kCFBooleanTrue
        query[kSecMatchLimit as String] = kSecMatchLimitOne
        var result: AnyObject?
        let status = retrieve(query as CFDictionary, &result)
        return (status, result as? Data)
    }

    func delete(_ key: String) -> OSStatus { remove(query(key) as CFDictionary) }

    private func query(_ key: String) -> [String: Any] {
        [
            kSecClass as String: kSecClassGenericPassword, kSecAttrService as String: service,
            kSecAttrAccount as String: key, kSecUseAuthenticationContext as String: LAContext(),
        ]
    }
}
