// The ways in which applications' keychain classes write dictionaries, constants and results. Each stores one item, and finds it.

// Programs for an iPhone are written so.
// swift-format-ignore-file: NeverForceUnwrap

import FileProtection
import Secrets

private let account = "somebody"
private let secret = Data("a secret".utf8)

/// A dictionary of objects that grows key by key, as in Apple's own sample.
func dictionaryOfObjects() -> Data? {
    func query(_ service: String) -> [String: AnyObject] {
        var query = [String: AnyObject]()
        query[kSecClass as String] = kSecClassGenericPassword
        query[kSecAttrService as String] = service as AnyObject?
        query[kSecAttrAccount as String] = account as AnyObject?
        return query
    }
    var new = query("objects")
    new[kSecValueData as String] = secret as AnyObject?
    guard SecItemAdd(new as CFDictionary, nil) == noErr else { return nil }
    var search = query("objects")
    search[kSecMatchLimit as String] = kSecMatchLimitOne
    search[kSecReturnAttributes as String] = kCFBooleanTrue
    search[kSecReturnData as String] = kCFBooleanTrue
    var result: AnyObject?
    let status = withUnsafeMutablePointer(to: &result) {
        SecItemCopyMatching(search as CFDictionary, UnsafeMutablePointer($0))
    }
    guard status == noErr, let item = result as? [String: AnyObject],
        let found = item[kSecValueData as String] as? Data
    else { return nil }
    return found
}

/// Values that all are NSObjects.
func dictionaryOfNSObjects() -> Data? {
    var query: [String: NSObject] = [
        kSecClass as String: kSecClassInternetPassword, kSecAttrServer as String: "example.org" as NSString,
        kSecAttrSynchronizable as String: kCFBooleanFalse, kSecAttrPort as String: NSNumber(value: 443),
    ]
    query[kSecValueData as String] = secret as NSData
    guard SecItemAdd(query as CFDictionary, nil) == errSecSuccess else { return nil }
    query[kSecValueData as String] = nil
    query[kSecReturnData as String] = kCFBooleanTrue
    query[kSecMatchLimit as String] = kSecMatchLimitAll
    query[kSecAttrSynchronizable as String] = kSecAttrSynchronizableAny
    var result: CFTypeRef?
    guard SecItemCopyMatching(query as CFDictionary, &result) == errSecSuccess else { return nil }
    return (result as? [Data])?.first ?? (result as? NSArray)?.firstObject as? Data
}

/// Keys that are constants as they are, and a protocol whose values are constants.
protocol StoredAs { var word: CFString { get } }
enum When: StoredAs, CaseIterable {
    case unlocked, afterFirstUnlock
    private static let words: [When: CFString] = [
        .unlocked: kSecAttrAccessibleWhenUnlocked, .afterFirstUnlock: kSecAttrAccessibleAfterFirstUnlock,
    ]
    var word: CFString { When.words[self] ?? kSecAttrAccessibleWhenUnlocked }
    init?(_ word: CFString) {
        guard let found = When.allCases.first(where: { $0.word == word }) else { return nil }
        self = found
    }
}
func constantsAsKeys() -> Data? {
    let base: [CFString: Any] = [
        kSecClass: kSecClassGenericPassword, kSecAttrService: "constants", kSecAttrAccount: account as CFString,
    ]
    var new = base
    new[kSecValueData] = secret as CFData
    new[kSecAttrAccessible] = When.afterFirstUnlock.word as AnyObject
    guard SecItemAdd(new as CFDictionary, nil) == errSecSuccess else { return nil }
    let search = base.merging([kSecReturnData: kCFBooleanTrue as Any, kSecReturnAttributes: true]) { $1 }
    var result: CFTypeRef?
    guard SecItemCopyMatching(search as CFDictionary, &result) == errSecSuccess, let item = result as? [CFString: Any],
        let word = item[kSecAttrAccessible] as? String, When(word as CFString) == .afterFirstUnlock
    else { return nil }
    return item[kSecValueData] as? Data
}

/// A dictionary of Foundation's that can be changed, made by a function of the dictionary's own type.
extension CFDictionary {
    fileprivate static func entry(_ name: String, _ more: [String: AnyObject] = [:]) -> CFDictionary {
        let all = NSMutableDictionary(dictionary: more)
        all[kSecClass] = kSecClassGenericPassword
        all[kSecAttrService as String] = "mutable"
        all.setObject(name, forKey: kSecAttrAccount as NSString)
        return all as CFDictionary
    }
    fileprivate var names: [String] { allKeys.compactMap { $0 as? String } }
}
func mutableDictionary() -> Data? {
    guard SecItemAdd(.entry(account, [kSecValueData as String: secret as AnyObject]), nil) == errSecSuccess,
        SecItemUpdate(.entry(account), [kSecAttrLabel: "label"] as CFDictionary) == errSecSuccess,
        CFDictionary.entry(account).names.count == 3
    else { return nil }
    var result: AnyObject?
    let search = CFDictionary.entry(account, [kSecReturnData as String: kCFBooleanTrue])
    guard SecItemCopyMatching(search, &result) == errSecSuccess, CFGetTypeID(result) == CFDataGetTypeID() else {
        return nil
    }
    return result as? Data
}

/// Truth values as Any, a forced result, and the meaning of a status.
func valuesOfAny() -> Data? {
    let query: [String: Any] = [
        kSecClass as String: kSecClassGenericPassword as Any, kSecAttrService as String: "any",
        kSecAttrAccount as String: account, kSecReturnAttributes as String: kCFBooleanFalse as Any,
        kSecReturnData as String: kCFBooleanTrue!, kSecMatchLimit as String: kSecMatchLimitOne,
    ]
    var result: AnyObject?
    let missing = SecItemCopyMatching(query as CFDictionary, &result)
    guard missing == errSecItemNotFound, missing != errSecInvalidValue,
        let text = SecCopyErrorMessageString(missing, nil) as String?, !text.isEmpty
    else { return nil }
    let new = query.filter { ![kSecMatchLimit as String].contains($0.key) }
    guard SecItemAdd(new.merging([kSecValueData as String: secret]) { $1 } as CFDictionary, &result) == errSecSuccess
    else { return nil }
    return result as! CFData? as Data?
}

/// Constants that are made to strings once, and lists of accounts whose keys are anything that can be hashed.
private let itemClass = String(kSecClass)
private let limit: String! = kSecMatchLimit as String
private let returnsAttributes: String! = kSecReturnAttributes as String
private let attributeOfAccount = kSecAttrAccount as String
func constantsAsStrings() -> Data? {
    var query: [String: Any] = [itemClass: kSecClassGenericPassword]
    query[kSecAttrService as String] = "strings"
    query[attributeOfAccount] = account.data(using: .utf8)
    query[kSecValueData as String] = secret
    query[kSecAttrAccessible as String] = When.unlocked.word
    guard SecItemAdd(query as CFDictionary, nil) == errSecSuccess else { return nil }
    var search: [String: Any] = [itemClass: kSecClassGenericPassword, kSecAttrService as String: "strings"]
    search[limit] = kSecMatchLimitAll
    search[returnsAttributes] = kCFBooleanTrue
    search[kSecReturnData as String] = kCFBooleanTrue
    var result: AnyObject?
    guard SecItemCopyMatching(search as CFDictionary, &result) == noErr, let found = result as? [[AnyHashable: Any]]
    else { return nil }
    for item in found where item[attributeOfAccount] as? Data == account.data(using: .utf8) {
        return item[kSecValueData as String] as? Data
    }
    return nil
}

/// A context that says what this machine lacks, and is then given to a query.
func contexts() -> Data? {
    let context = LAContext()
    var reason: NSError?
    guard !context.canEvaluatePolicy(.deviceOwnerAuthenticationWithBiometrics, error: &reason),
        context.biometryType == LABiometryType.none, reason?.code == LAError.biometryNotAvailable.rawValue,
        !context.setCredential(secret, type: .applicationPassword), !context.isCredentialSet(.applicationPassword)
    else { return nil }
    let query: [String: Any] = [
        kSecClass as String: kSecClassGenericPassword, kSecAttrService as String: "any",
        kSecUseAuthenticationContext as String: context, kSecReturnData as String: true,
    ]
    var result: CFTypeRef?
    return SecItemCopyMatching(query as CFDictionary, &result) == errSecSuccess ? result as? Data : nil
}

/// A value of a constant's type in a structure, and a whole dictionary as a literal.
struct Place {
    let kind: CFString
    let when: CFString?
    var query: [CFString: AnyObject] {
        var result: [CFString: AnyObject] = [kSecClass: kind, kSecAttrService: "structure" as AnyObject]
        if let when { result[kSecAttrAccessible] = when }
        return result
    }
}
func constantsInStructures() -> Data? {
    let place = Place(kind: kSecClassGenericPassword, when: When.unlocked.word)
    var new = place.query
    new[kSecValueData] = secret as CFTypeRef
    var result: CFTypeRef?
    new[kSecReturnPersistentRef] = kCFBooleanTrue
    guard SecItemAdd(new as CFDictionary, &result) == errSecSuccess, let reference = result as? Data else { return nil }
    let literal = [kSecValuePersistentRef: reference, kSecReturnData: true] as CFDictionary
    guard SecItemCopyMatching(literal, &result) == errSecSuccess else { return nil }
    return result as? NSData as Data?
}
