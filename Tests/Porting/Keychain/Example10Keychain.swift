// Example 10: a password in the keychain, added and read.

import FileProtection
import Secrets

func savePassword(_ password: String, account: String) -> OSStatus {
    let data = Data(password.utf8)
    let query: [String: Any] = [
        kSecClass as String: kSecClassGenericPassword,
        kSecAttrAccount as String: account,
        kSecValueData as String: data,
        kSecAttrAccessible as String: kSecAttrAccessibleWhenUnlocked,
    ]
    return SecItemAdd(query as CFDictionary, nil)
}

func readPassword(account: String) -> (OSStatus, String?) {
    let query: [String: Any] = [
        kSecClass as String: kSecClassGenericPassword,
        kSecAttrAccount as String: account,
        kSecReturnData as String: true,
        kSecMatchLimit as String: kSecMatchLimitOne,
    ]
    var item: CFTypeRef?
    let status = SecItemCopyMatching(query as CFDictionary, &item)
    guard status == errSecSuccess, let data = item as? Data else { return (status, nil) }
    return (status, String(data: data, encoding: .utf8))
}

func deleteThenAdd(_ password: String, account: String) -> OSStatus {
    let query =
        [
            kSecClass: kSecClassGenericPassword,
            kSecAttrAccount: account,
            kSecValueData: Data(password.utf8),
        ] as [CFString: Any] as CFDictionary
    SecItemDelete(query)
    return SecItemAdd(query, nil)
}
