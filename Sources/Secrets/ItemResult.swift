// Makes results of stored items: data, dictionaries, references, and arrays of them.

// protectfs: plain Foundation: values in memory, no files.
import Foundation
internal import SecretStore

/// The results that a dictionary requests.
enum ItemResult {
    /// The result for one item, or an array for several. Nil if no result is requested.
    static func object(_ answers: [CFTypeRef?], isOne: Bool) -> CFTypeRef? {
        let answers = answers.compactMap { $0 }
        guard isOne else { return answers.isEmpty ? nil : NSArray(array: answers) }
        return answers.first
    }

    /// What is requested of one item. A single thing is returned as it is, several are in a dictionary.
    static func answer(_ item: SecretItem, _ data: Data?, _ wanted: ItemDictionary) -> CFTypeRef? {
        let certificate = wanted.wantsReference && item.kind == .certificate ? data.flatMap(SecCertificate.init) : nil
        if wanted.results == 1 {
            if wanted.wantsData { return data as CFData? }
            if wanted.wantsReference { return certificate }
            if wanted.wantsPersistentReference { return persistentReference(to: item) as CFData }
        }
        guard wanted.results > 0 else { return nil }
        var result = wanted.wantsAttributes ? attributes(item) : [:]
        if wanted.wantsData { result[kSecValueData] = data }
        if wanted.wantsReference { result[kSecValueRef] = certificate }
        if wanted.wantsPersistentReference { result[kSecValuePersistentRef] = persistentReference(to: item) }
        return result as CFDictionary
    }

    /// Whether the content of the item's file is needed for a result.
    static func needsData(_ item: SecretItem, _ wanted: ItemDictionary) -> Bool {
        wanted.wantsData || wanted.wantsReference && item.kind == .certificate
    }

    // MARK: Attributes

    /// The attributes of a stored item. Identifying attributes that it lacks are empty.
    static func attributes(_ item: SecretItem) -> [CFString: Any] {
        let accessible = ItemDictionary.accessible(item)
        let isSynchronizable = item.attributes[KeychainAttribute.synchronizable] == .flag(true)
        var result: [CFString: Any] = [
            kSecClass: word(item.kind), kSecAttrAccessible: accessible,
            kSecAttrAccessControl: SecAccessControl(accessible),
            kSecAttrSynchronizable: NSNumber(value: isSynchronizable ? 1 : 0),
            kSecAttrCreationDate: Date(timeIntervalSince1970: Double(item.created) / 1e9),
            kSecAttrModificationDate: Date(timeIntervalSince1970: Double(item.modified) / 1e9),
        ]
        for attribute in ItemAttribute.all where attribute.kinds.contains(item.kind) {
            result[attribute.key as CFString] = item.attributes[attribute.name].map(ItemAttribute.object)
        }
        if result[kSecAttrAccessGroup] == nil { result[kSecAttrAccessGroup] = KeychainAttribute.standardGroup }
        for key in emptyText(item.kind) where result[key] == nil { result[key] = "" }
        if item.kind == .internet, result[kSecAttrPort] == nil { result[kSecAttrPort] = 0 }
        return result
    }

    private static func emptyText(_ kind: SecretKind) -> [CFString] {
        switch kind {
        case .generic: [kSecAttrAccount, kSecAttrService]
        case .internet:
            [
                kSecAttrAccount, kSecAttrSecurityDomain, kSecAttrServer, kSecAttrProtocol, kSecAttrAuthenticationType,
                kSecAttrPath,
            ]
        case .desktop, .key, .certificate: []
        }
    }

    private static func word(_ kind: SecretKind) -> CFString {
        switch kind {
        // Items of desktop programs are never found by a kind, and have the attributes of none.
        case .generic, .desktop: kSecClassGenericPassword
        case .internet: kSecClassInternetPassword
        case .key: kSecClassKey
        case .certificate: kSecClassCertificate
        }
    }

    // MARK: Persistent references

    /// The kind of item and the store's reference.
    private static func persistentReference(to item: SecretItem) -> Data {
        Data(Array((word(item.kind) as String).utf8) + (item.reference ?? []))
    }

    /// The store's reference and the kind in `persistentReference`; nil for other bytes.
    static func reference(_ data: Data) -> (kind: String, bytes: [UInt8])? {
        let bytes = Array(data)
        guard bytes.count == 52, let kind = String(validating: bytes.prefix(4), as: UTF8.self) else { return nil }
        return (kind, Array(bytes.dropFirst(4)))
    }

    /// Whether a persistent reference names an item of this kind.
    static func isKind(_ word: String, _ item: SecretItem) -> Bool {
        item.kind != .desktop && Self.word(item.kind) as String == word
    }
}
