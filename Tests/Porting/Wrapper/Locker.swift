// A keychain wrapper whose dictionaries are of AnyHashable, with a canary, groups and migration, in the manner of one that
// payment programs use.

import FileProtection
import Secrets

/// Why a locker has failed.
enum LockerError: Error, Equatable {
    case itemNotFound
    case couldNotAccess
    case invalidQuery
    case keyNotUnique
    case other(OSStatus)

    init(_ status: OSStatus) {
        switch status {
        case errSecItemNotFound: self = .itemNotFound
        case errSecInteractionNotAllowed, errSecAuthFailed, errSecUserCanceled: self = .couldNotAccess
        default: self = .other(status)
        }
    }
}

/// Items with one identifier and one accessibility. The accessibility is a part of each query.
final class Locker {
    typealias Query = [String: AnyHashable]

    let base: Query
    private let lock = NSLock()
    private static let canaryKey = "Locker canary"

    init(_ identifier: String, _ availability: Availability, synchronizable: Bool = false) {
        var base: Query = [
            kSecClass as String: kSecClassGenericPassword as String,
            kSecAttrService as String: "Locker \(identifier) \(availability)",
            kSecAttrAccessible as String: availability.rawValue as String,
            kSecUseDataProtectionKeychain as String: true,
        ]
        if synchronizable { base[kSecAttrSynchronizable as String] = true }
        self.base = base
    }

    /// A locker that several programs of a team share.
    init(sharedGroup: String, _ availability: Availability) {
        base = [
            kSecClass as String: kSecClassGenericPassword as String,
            kSecAttrService as String: "Locker shared",
            kSecAttrAccessGroup as String: sharedGroup,
            kSecAttrAccessible as String: availability.rawValue as String,
        ]
    }

    /// A locker whose items need a person.
    init?(_ identifier: String, needing flags: SecAccessControlCreateFlags) {
        guard
            let control = SecAccessControlCreateWithFlags(
                nil, kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly, flags, nil)
        else { return nil }
        base = [
            kSecClass as String: kSecClassGenericPassword as String,
            kSecAttrService as String: "Locker \(identifier) enclave",
            kSecAttrAccessControl as String: control,
            kSecUseAuthenticationContext as String: LAContext(),
        ]
    }

    /// The first part of the group that items get without one, as programs find out the prefix of their team.
    static func groupPrefix() -> String? {
        let query: Query = [
            kSecClass as String: kSecClassGenericPassword as String,
            kSecAttrAccount as String: "Locker placeholder",
            kSecReturnAttributes as String: true,
            kSecAttrAccessible as String: kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly as String,
        ]
        var result: AnyObject?
        var status = SecItemCopyMatching(query as CFDictionary, &result)
        if status == errSecItemNotFound { status = SecItemAdd(query as CFDictionary, &result) }
        guard status == errSecSuccess, let attributes = result as? [CFString: AnyHashable],
            let group = attributes[kSecAttrAccessGroup] as? String
        else { return nil }
        return group.components(separatedBy: ".").first
    }

    // MARK: One item

    func set(_ object: Data, _ key: String) throws(LockerError) {
        guard !key.isEmpty, !object.isEmpty else { throw .invalidQuery }
        if contains(key) == errSecSuccess {
            try check(
                SecItemUpdate(query(key) as CFDictionary, [kSecValueData as String: object] as CFDictionary))
        } else {
            var attributes = query(key)
            attributes[kSecValueData as String] = object
            try check(SecItemAdd(attributes as CFDictionary, nil))
        }
    }

    func object(_ key: String) throws(LockerError) -> Data {
        var query = query(key)
        query[kSecMatchLimit as String] = kSecMatchLimitOne as String
        query[kSecReturnData as String] = true
        return try copy(query)
    }

    func contains(_ key: String) -> OSStatus {
        lock.lock()
        defer { lock.unlock() }
        return SecItemCopyMatching(query(key) as CFDictionary, nil)
    }

    func remove(_ key: String) throws(LockerError) {
        let status = SecItemDelete(query(key) as CFDictionary)
        if status != errSecItemNotFound { try check(status) }
    }

    func removeAll() throws(LockerError) {
        let status = SecItemDelete(base as CFDictionary)
        if status != errSecItemNotFound { try check(status) }
    }

    /// Whether the items can be read and written now: an item made for this question is read back.
    func canAccess() -> Bool {
        let canary = Data("canary".utf8)
        if (try? object(Self.canaryKey)) == canary { return true }
        try? set(canary, Self.canaryKey)
        return (try? object(Self.canaryKey)) == canary
    }

    // MARK: All items

    func allKeys() throws(LockerError) -> Set<String> {
        var query = base
        query[kSecMatchLimit as String] = kSecMatchLimitAll as String
        query[kSecReturnAttributes as String] = true
        do throws(LockerError) {
            let found: Any = try copy(query)
            if let items = found as? [Query] {
                return Set(
                    items.compactMap { $0[kSecAttrAccount as String] as? String }.filter { $0 != Self.canaryKey })
            }
            return []
        } catch {
            guard error == .itemNotFound else { throw error }
            return []
        }
    }

    /// Copies all items that match a query into this locker: first their attributes and persistent references, then each
    /// one's data. If one fails, none remains.
    func migrate(_ query: Query, removing: Bool) throws(LockerError) {
        guard query[kSecClass as String] as? String != nil,
            query[kSecMatchLimit as String] as? String as CFString? != kSecMatchLimitOne,
            query[kSecReturnData as String] as? Bool != true, query[kSecReturnRef as String] as? Bool != true
        else { throw .invalidQuery }
        var all = query
        all[kSecMatchLimit as String] = kSecMatchLimitAll as String
        all[kSecReturnAttributes as String] = true
        all[kSecReturnData as String] = false
        all[kSecReturnRef as String] = false
        all[kSecReturnPersistentRef as String] = true
        let items: [Query] = try copy(all)
        var values: [String: Data] = [:]
        for item in items {
            guard let reference = item[kSecValuePersistentRef as String],
                let key = item[kSecAttrAccount as String] as? String, key != Self.canaryKey
            else { continue }
            guard values[key] == nil else { throw .keyNotUnique }
            values[key] = try copy([kSecValuePersistentRef as String: reference, kSecReturnData as String: true])
        }
        var done: [String] = []
        for (key, value) in values {
            do throws(LockerError) {
                guard contains(key) == errSecItemNotFound else { throw .keyNotUnique }
                try set(value, key)
                done.append(key)
            } catch {
                for key in done { try? remove(key) }
                throw error
            }
        }
        if removing { try check(SecItemDelete(query as CFDictionary)) }
    }

    // MARK: Calls

    private func query(_ key: String) -> Query {
        var query = base
        query[kSecAttrAccount as String] = key
        return query
    }

    private func copy<Result>(_ query: Query) throws(LockerError) -> Result {
        var status = errSecNotAvailable
        var result: AnyObject?
        lock.lock()
        status = SecItemCopyMatching(query as CFDictionary, &result)
        lock.unlock()
        try check(status)
        guard let found = result as? Result else { throw .itemNotFound }
        return found
    }

    private func check(_ status: OSStatus) throws(LockerError) {
        if status != errSecSuccess { throw LockerError(status) }
    }
}
