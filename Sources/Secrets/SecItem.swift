// SecItemAdd, SecItemCopyMatching, SecItemUpdate and SecItemDelete for the secrets of a mount.

// protectfs: plain Foundation: values in memory, no files.
import Foundation
internal import HostSystem
internal import SecretStore
internal import SodiumKit
internal import VolumeFormat

/// Stores an item (Apple's `SecItemAdd`).
///
/// - Parameters:
///   - attributes: `kSecClass`, attributes, `kSecValueData` and `kSecAttrAccessible`. `kSecReturnData` and
///     `kSecReturnAttributes` request a result.
///   - result: receives `Data`, or a dictionary if attributes are requested; nil if no result is requested. May be nil.
/// - Returns: `errSecSuccess`, `errSecDuplicateItem`, `errSecInteractionNotAllowed` while the class is closed, or
///   another code.
@discardableResult
public func SecItemAdd(_ attributes: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
    unsafe answering(result) { store throws(SecurityFailure) in
        let wanted = try ItemDictionary(attributes)
        guard let kind = wanted.kind else { throw SecurityFailure(errSecParam) }
        let accessible = wanted.accessible ?? kSecAttrAccessibleWhenUnlocked
        guard let protectionClass = ItemDictionary.protectionClass(accessible) else {
            throw SecurityFailure(errSecParam)
        }
        var item = SecretItem(kind, wanted.attributes, class: protectionClass)
        item.attributes[ItemDictionary.accessibleName] = .text(accessible)
        try code { () throws(SecretError) in try store.add(item, secret: try locked(wanted.secret ?? Data())) }
        guard wanted.wantsData || wanted.wantsAttributes else { return nil }
        var found = ItemDictionary.dictionary(item)
        for date in [kSecAttrCreationDate, kSecAttrModificationDate] { found[date] = nil }
        return object([answer(found, wanted.secret ?? Data(), wanted)], isOne: true)
    }
}

/// Finds items (Apple's `SecItemCopyMatching`).
///
/// - Parameters:
///   - query: `kSecClass`, attributes to match, `kSecMatchLimit`, and the keys of the requested results. Without
///     `kSecReturnData` the call works in every state of the volume.
///   - result: receives `Data`, a dictionary if attributes are requested, or an array of these if the limit is not one.
///     May be nil.
/// - Returns: `errSecSuccess`, `errSecItemNotFound`, `errSecInteractionNotAllowed` while a requested secret is closed,
///   or another code.
@discardableResult
public func SecItemCopyMatching(_ query: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
    unsafe answering(result) { store throws(SecurityFailure) in
        let wanted = try ItemDictionary(query)
        var answers: [Any] = []
        for item in try items(store, wanted).prefix(wanted.limit ?? .max) {
            var data: Data?
            if wanted.wantsData {
                let secret = try code { () throws(SecretError) in try store.secret(of: item) }
                data = secret.withBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe Data($0) } }
            }
            answers.append(answer(ItemDictionary.dictionary(item), data, wanted))
        }
        guard wanted.wantsData || wanted.wantsAttributes else { return nil }
        return object(answers, isOne: wanted.limit == 1)
    }
}

/// Changes every item that matches a query (Apple's `SecItemUpdate`).
///
/// - Parameters:
///   - query: `kSecClass` and attributes to match.
///   - attributesToUpdate: the new attributes, the new secret (`kSecValueData`) and the new `kSecAttrAccessible`.
/// - Returns: `errSecSuccess`, `errSecItemNotFound`, `errSecDuplicateItem` if another item has the new identifying
///   attributes, `errSecInteractionNotAllowed` while the old or the new class is closed, or another code.
@discardableResult
public func SecItemUpdate(_ query: CFDictionary, _ attributesToUpdate: CFDictionary) -> OSStatus {
    answering(nil) { store throws(SecurityFailure) in
        let changes = try ItemDictionary(attributesToUpdate)
        guard changes.kind == nil, !changes.isQuery, !attributesToUpdate.isEmpty else {
            throw SecurityFailure(errSecParam)
        }
        for item in try items(store, try ItemDictionary(query)) {
            var changed = item
            changed.attributes.merge(changes.attributes) { $1 }
            if let accessible = changes.accessible, let new = ItemDictionary.protectionClass(accessible) {
                changed.protectionClass = new
                changed.attributes[ItemDictionary.accessibleName] = .text(accessible)
            }
            try code { () throws(SecretError) in
                // The secret is always read, because a closed item cannot be changed.
                let old = try store.secret(of: item)
                guard let new = changes.secret else { return try store.update(item, to: changed, secret: old) }
                try store.update(item, to: changed, secret: try locked(new))
            }
        }
        return nil
    }
}

/// Removes every item that matches a query (Apple's `SecItemDelete`). Works in every state of the volume.
///
/// - Parameter query: `kSecClass` and attributes to match.
/// - Returns: `errSecSuccess`, `errSecItemNotFound` or another code.
@discardableResult
public func SecItemDelete(_ query: CFDictionary) -> OSStatus {
    answering(nil) { store throws(SecurityFailure) in
        for item in try items(store, try ItemDictionary(query)) {
            try code { () throws(SecretError) in try store.delete(item) }
        }
        return nil
    }
}

// MARK: Steps

/// Runs `body` on the mount's secrets and converts its failure to a result code.
private func answering(
    _ result: UnsafeMutablePointer<CFTypeRef?>?, _ body: (SecretStore) throws(SecurityFailure) -> AnyObject?
) -> OSStatus {
    do throws(SecurityFailure) {
        guard let store = SecretsMount.store else { return errSecNotAvailable }
        let found = try body(store)
        // The caller's pointer is valid during the call, as for every inout argument.
        if let result = unsafe result { unsafe result.pointee = found }
        return errSecSuccess
    } catch {
        return error.status
    }
}

/// The items that match a query; throws if there are none. The secret in a query is not compared.
private func items(_ store: SecretStore, _ wanted: ItemDictionary) throws(SecurityFailure) -> [SecretItem] {
    guard wanted.kind != nil else { throw SecurityFailure(errSecParam) }
    var query = SecretQuery(wanted.kind, wanted.attributes)
    query.ignoresCase = wanted.ignoresCase
    var found = try code { () throws(SecretError) in try store.list(query).items }
    if let accessible = wanted.accessible { found.removeAll { ItemDictionary.accessible($0) != accessible } }
    guard !found.isEmpty else { throw SecurityFailure(errSecItemNotFound) }
    return found
}

private func answer(_ attributes: [String: Any], _ data: Data?, _ wanted: ItemDictionary) -> Any {
    guard wanted.wantsAttributes else { return data ?? Data() }
    guard wanted.wantsData else { return attributes }
    return attributes.merging([kSecValueData: data ?? Data()]) { $1 }
}

/// The results as objects, which cast to `Data`, `[String: Any]` and arrays of them.
private func object(_ answers: [Any], isOne: Bool) -> AnyObject? {
    guard isOne else { return NSArray(array: answers) }
    switch answers.first {
    case let data as Data: return data as NSData
    case let dictionary as [String: Any]: return NSDictionary(dictionary: dictionary)
    default: return nil
    }
}

/// Copies a secret from `Data` to locked memory.
private func locked(_ data: Data) throws(SecretError) -> SecretBytes {
    guard data.count <= SecretStore.largestSecret else { throw .tooLong }
    do throws(SodiumError) { return try SecretBytes(copying: data.span) } catch { throw .memory(error) }
}

private func code<Result: ~Copyable>(_ body: () throws(SecretError) -> Result) throws(SecurityFailure) -> Result {
    do throws(SecretError) { return try body() } catch { throw SecurityFailure(status(error)) }
}

private func status(_ error: SecretError) -> OSStatus {
    switch error {
    case .locked: errSecInteractionNotAllowed
    case .duplicate: errSecDuplicateItem
    case .notFound: errSecItemNotFound
    case .tooLong, .tooManyAttributes: errSecDataTooLarge
    case .notOwn: errSecWrPerm
    case .memory: errSecAllocate
    case .system(let error):
        switch error.code {
        case EROFS, EACCES, EPERM: errSecWrPerm
        case ENOSPC, EDQUOT: errSecDiskFull
        case ENOTCONN: errSecNotAvailable
        default: errSecIO
        }
    }
}
