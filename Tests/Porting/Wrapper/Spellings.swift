// The spellings of CoreFoundation in which programs write dictionaries and cast results: each must compile and work.

// Programs for an iPhone are written so.
// swift-format-ignore-file: NeverForceUnwrap

import FileProtection
import Secrets

func testSpellings() {
    let account = "spelling"
    let strings: [CFString: Any] = [
        kSecClass: kSecClassGenericPassword, kSecAttrAccount: account as CFString,
        kSecValueData: Data("1".utf8) as CFData, kSecAttrIsInvisible: kCFBooleanTrue!,
        kSecAttrCreator: NSNumber(value: 3) as CFNumber, kSecAttrLabel: NSString("label"),
    ]
    check("keys of CFString", SecItemAdd(strings as CFDictionary, nil) == errSecSuccess)
    let objects: [String: AnyObject] = [
        kSecClass as String: kSecClassGenericPassword as AnyObject, kSecAttrAccount as String: account as AnyObject,
        kSecReturnAttributes as String: kCFBooleanTrue as AnyObject, kSecReturnData as String: true as AnyObject,
        kSecMatchLimit as String: kSecMatchLimitAll as AnyObject,
    ]
    var result: CFTypeRef?
    check("values of AnyObject", SecItemCopyMatching(objects as CFDictionary, &result) == errSecSuccess)
    let list = result as? [[String: Any]]
    check("an array of dictionaries", list?.first?[kSecAttrAccount as String] as? String == account)
    check(
        "of AnyObject", (result as? [[String: AnyObject]])?.first?[kSecValueData as String] as? Data == Data("1".utf8))
    check("of AnyHashable", (result as? [[String: AnyHashable]])?.first?[kSecAttrCreator as String] as? Int == 3)
    check("with keys of CFString", (result as? [[CFString: Any]])?.first?[kSecAttrLabel] as? String == "label")
    check("with keys of AnyHashable", (result as? [[AnyHashable: Any]])?.count == 1)
    check("an NSArray", (result as? NSArray)?.count == 1)
    check("of NSDictionary", (result as? [NSDictionary])?.first?[kSecAttrAccount] as? String == account)
    check("an array of anything", (result as? [Any])?.count == 1)
    let first = list?.first ?? [:]
    check("a flag as Bool", first[kSecAttrIsInvisible as String] as? Bool == true)
    check("a flag as a number", first[kSecAttrIsInvisible as String] as? NSNumber == 1)
    check("a flag as Int", first[kSecAttrIsInvisible as String] as? Int == 1)
    check("data as NSData", (first[kSecValueData as String] as? NSData)?.length == 1)
    check("a date as NSDate", (first[kSecAttrCreationDate as String] as? NSDate) != nil)
    check("text as NSString", (first[kSecAttrLabel as String] as? NSString)?.length == 5)

    let hashable: [String: AnyHashable] = [
        kSecClass as String: kSecClassGenericPassword, kSecAttrAccount as String: account,
        kSecReturnPersistentRef as String: true, kSecMatchLimit as String: 2,
    ]
    let status = withUnsafeMutablePointer(to: &result) { SecItemCopyMatching(hashable as CFDictionary, $0) }
    check("values of AnyHashable", status == noErr && (result as? [Data])?.count == 1, status)
    check("an array of NSData", (result as? [NSData])?.count == 1)
    var item: AnyObject?
    let one: [CFString: Any] = [
        kSecClass: kSecClassGenericPassword, kSecAttrAccount: account, kSecReturnData: kCFBooleanTrue!,
    ]
    check("one dictionary", SecItemCopyMatching(one as CFDictionary, &item) == errSecSuccess)
    check("data", (item as! Data) == Data("1".utf8) && item is NSData)
    let change = NSDictionary(dictionary: [kSecAttrLabel: "new"]) as! [String: Any]
    check(
        "from NSDictionary",
        SecItemUpdate(strings.filter { $0.key == kSecClass } as CFDictionary, change as CFDictionary) == 0)
    let word: CFString? = kSecMatchLimitOne
    switch word {
    case kSecMatchLimitOne?: check("a switch over CFString", true)
    default: check("a switch over CFString", false)
    }

    var error: Unmanaged<CFError>?
    let control = SecAccessControlCreateWithFlags(
        kCFAllocatorDefault, "never" as CFTypeRef, [.userPresence, .or, .devicePasscode], &error)
    let thrown = error!.takeRetainedValue() as Error
    check("CFError as Error", control == nil && (thrown as NSError).domain == NSOSStatusErrorDomain)
    check("and its parts", (thrown as NSError).code == Int(errSecParam) && !thrown.localizedDescription.isEmpty)
    check("deleted", SecItemDelete([kSecClass: kSecClassGenericPassword] as CFDictionary) == errSecSuccess)
}
