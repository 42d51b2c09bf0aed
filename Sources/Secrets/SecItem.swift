// SecItemAdd, SecItemCopyMatching, SecItemUpdate and SecItemDelete for the secrets of a mount.

// protectfs: plain Foundation: values in memory, no files.
public import Foundation
internal import HostSystem
internal import SecretStore
internal import SodiumKit
internal import VolumeFormat

/// Stores an item (Apple's `SecItemAdd`).
///
/// - Parameters:
///   - attributes: `kSecClass`, attributes, `kSecValueData`, and `kSecAttrAccessible` or `kSecAttrAccessControl`.
///     `kSecReturnData` and the other keys of results request a result.
///   - result: receives what is requested: `Data`, a reference, or a dictionary of the attributes and of everything else if
///     several are requested; nil if no result is requested. May be nil.
/// - Returns: `errSecSuccess`, `errSecDuplicateItem`, `errSecInteractionNotAllowed` while the class is closed, or
///   another code.
@discardableResult
public func SecItemAdd(_ attributes: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
    unsafe answering(result) { store throws(SecurityFailure) in
        let wanted = try ItemDictionary(attributes)
        guard !wanted.isIdentity else { throw SecurityFailure(errSecUnimplemented) }
        guard let kind = wanted.kind, !wanted.isSearch else { throw SecurityFailure(errSecParam) }
        var item = SecretItem(kind, wanted.attributes, class: .complete)
        var secret = wanted.secret ?? Data()
        if kind == .certificate {
            guard let certificate = wanted.certificate ?? SecCertificate(secret) else {
                throw SecurityFailure(wanted.secret == nil ? errSecParam : errSecDecode)
            }
            secret = certificate.data
            item.attributes["subject"] = .bytes(certificate.fields.subject)
            item.attributes["issuer"] = .bytes(certificate.fields.issuer)
            item.attributes["serial"] = .bytes(certificate.fields.serial)
        }
        let group = SecretsMount.accessGroup
        if item.attributes["group"] == nil, !wanted.empty.contains("group"), group != KeychainAttribute.standardGroup {
            item.attributes["group"] = .text(group)
        }
        try change(&item, wanted)
        item.attributes[KeychainAttribute.reference] = KeychainAttribute.newReference(to: item)
        item.created = wanted.created ?? 0
        item.modified = wanted.modified ?? 0
        let new = item
        let stored = try code { () throws(SecretError) in try store.add(new, secret: try locked(secret)) }
        return ItemResult.object([ItemResult.answer(stored, secret, wanted)], isOne: true)
    }
}

/// Finds items (Apple's `SecItemCopyMatching`).
///
/// - Parameters:
///   - query: `kSecClass`, attributes to match, `kSecMatchLimit`, and the keys of the requested results. Without
///     `kSecReturnData` the call works in every state of the volume.
///   - result: receives what is requested: `Data`, a reference, a dictionary if attributes or several kinds of result are
///     requested, or an array of these if the limit is not one. May be nil.
/// - Returns: `errSecSuccess`, `errSecItemNotFound`, `errSecInteractionNotAllowed` while a requested secret is closed,
///   or another code.
@discardableResult
public func SecItemCopyMatching(_ query: CFDictionary, _ result: UnsafeMutablePointer<CFTypeRef?>?) -> OSStatus {
    unsafe answering(result) { store throws(SecurityFailure) in
        let wanted = try ItemDictionary(query)
        var outcome = errSecItemNotFound
        search: for _ in 0..<mostSearches {
            let found = try items(store, wanted, limit: wanted.limit)
            var answers: [CFTypeRef?] = []
            for item in found {
                var data: Data?
                if ItemResult.needsData(item, wanted) {
                    do throws(SecretError) { data = copy(try store.secret(of: item)) } catch {
                        switch error {
                        case .notFound: continue
                        // The query may no longer match it, so it is neither left out nor taken as it is.
                        case .changed:
                            outcome = status(error)
                            continue search
                        default: throw SecurityFailure(status(error))
                        }
                    }
                }
                answers.append(ItemResult.answer(item, data, wanted))
            }
            // What another program has removed is left out. In place of it a limited search may find another item.
            if answers.count == found.count || wanted.limit == nil && !answers.isEmpty {
                return ItemResult.object(answers, isOne: wanted.limit == 1)
            }
        }
        throw SecurityFailure(outcome)
    }
}

/// Changes every item that matches a query (Apple's `SecItemUpdate`). Nothing is changed if one of the items is closed, or
/// if another item has the new identifying attributes. What other programs change at the same time is kept.
///
/// - Parameters:
///   - query: `kSecClass` and attributes to match, or `kSecValuePersistentRef`.
///   - attributesToUpdate: the new attributes, the new secret (`kSecValueData`), and the new `kSecAttrAccessible` or
///     `kSecAttrAccessControl`.
/// - Returns: `errSecSuccess`, `errSecItemNotFound`, `errSecDuplicateItem` if another item has the new identifying
///   attributes, `errSecInteractionNotAllowed` while the old or the new class is closed, or another code.
@discardableResult
public func SecItemUpdate(_ query: CFDictionary, _ attributesToUpdate: CFDictionary) -> OSStatus {
    answering(nil) { store throws(SecurityFailure) in
        let changes = try ItemDictionary(attributesToUpdate)
        let wanted = try ItemDictionary(query)
        guard changes.kind == nil, !changes.isIdentity, !changes.isSearch, changes.results == 0,
            attributesToUpdate.count > 0, wanted.results == 0, !wanted.hasLimit
        else { throw SecurityFailure(errSecParam) }
        let found = try items(store, wanted, limit: nil)
        var planned: [(old: SecretItem, new: SecretItem)] = []
        for item in found { planned.append((item, try changed(item, changes))) }
        try checkNames(planned, store)
        var isAny = false
        for item in found where try update(item, store, wanted, changes) { isAny = true }
        guard isAny else { throw SecurityFailure(errSecItemNotFound) }
        return nil
    }
}

/// Removes every item that matches a query (Apple's `SecItemDelete`). Works in every state of the volume.
///
/// - Parameter query: `kSecClass` and attributes to match, or `kSecValuePersistentRef`.
/// - Returns: `errSecSuccess`, `errSecItemNotFound` or another code.
@discardableResult
public func SecItemDelete(_ query: CFDictionary) -> OSStatus {
    answering(nil) { store throws(SecurityFailure) in
        let wanted = try ItemDictionary(query)
        guard !wanted.hasLimit else { throw SecurityFailure(errSecParam) }
        var isAny = false
        for _ in 0..<mostSearches {
            let found: [SecretItem]
            do throws(SecurityFailure) { found = try items(store, wanted, limit: nil) } catch {
                guard isAny, error.status == errSecItemNotFound else { throw error }
                return nil
            }
            var isComplete = true
            for item in found {
                if try unlessGone({ () throws(SecretError) in try store.delete(item) }) != nil {
                    isAny = true
                } else {
                    // Another program has removed it, changed it, or given it another name.
                    isComplete = false
                }
            }
            if isComplete { return nil }
        }
        guard isAny else { throw SecurityFailure(errSecItemNotFound) }
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

/// How often a call searches again because other programs have removed items between its search and its access to them.
private let mostSearches = 10

/// An item with the changes of a dictionary.
private func changed(_ item: SecretItem, _ changes: ItemDictionary) throws(SecurityFailure) -> SecretItem {
    try changes.check(item.kind)
    // The content of a certificate says which one it is.
    guard item.kind != .certificate || changes.secret == nil else { throw SecurityFailure(errSecParam) }
    var new = item
    new.attributes.merge(changes.attributes) { $1 }
    for name in changes.empty { new.attributes[name] = nil }
    try change(&new, changes)
    if let created = changes.created { new.created = created }
    if new.name != item.file, let reference = item.reference {
        new.attributes[KeychainAttribute.reference] = .bytes(reference)
    }
    return new
}

/// Changes one item. If another program has changed it meanwhile, begins again with what is stored now.
///
/// - Returns: false if it has been removed, or the query does not match it any more.
private func update(
    _ item: SecretItem, _ store: SecretStore, _ wanted: ItemDictionary, _ changes: ItemDictionary
) throws(SecurityFailure) -> Bool {
    var item = item
    while true {
        let new = try changed(item, changes)
        do throws(SecretError) {
            if let secret = changes.secret {
                // The secret is always read, because a closed item cannot be changed.
                _ = try store.secret(of: item)
                try store.update(item, to: new, secret: try locked(secret))
            } else {
                try store.update(item, to: new)
            }
            return true
        } catch {
            switch error {
            case .changed, .notFound: break
            default: throw SecurityFailure(status(error))
            }
        }
        let found: [SecretItem]
        do throws(SecurityFailure) { found = try items(store, wanted, limit: nil) } catch {
            guard error.status == errSecItemNotFound else { throw error }
            return false
        }
        let reference = item.reference
        guard let same = found.first(where: { $0.reference == reference }),
            let now = try code({ () throws(SecretError) in try store.item(named: same.file) })
        else { return false }
        item = now
    }
}

/// Gives an item the accessibility and the synchronizability of a dictionary. A new item is `WhenUnlocked` unless the
/// dictionary says otherwise.
private func change(_ item: inout SecretItem, _ wanted: ItemDictionary) throws(SecurityFailure) {
    guard wanted.flags.isEmpty else { throw SecurityFailure(errSecUnimplemented) }
    let isNew = item.file.isEmpty
    if let accessible = wanted.accessible ?? (isNew ? kSecAttrAccessibleWhenUnlocked as String : nil),
        let protectionClass = ItemDictionary.protectionClass(accessible)
    {
        item.protectionClass = protectionClass
        item.attributes[ItemDictionary.accessibleName] = .text(accessible)
    }
    if wanted.synchronizable != .unsaid {
        item.attributes[KeychainAttribute.synchronizable] = wanted.isSynchronizable ? .flag(true) : nil
    }
}

/// The items that match a query, oldest first and at most `limit`; throws if there are none. The secret in a query is not
/// compared.
private func items(
    _ store: SecretStore, _ wanted: ItemDictionary, limit: Int?
) throws(SecurityFailure) -> [SecretItem] {
    guard !wanted.isIdentity else { throw SecurityFailure(errSecItemNotFound) }
    guard wanted.kind != nil || wanted.references != nil else { throw SecurityFailure(errSecParam) }
    var query = SecretQuery(wanted.kind, wanted.attributes)
    query.absent = wanted.empty
    query.ignoresCase = wanted.ignoresCase
    if let certificate = wanted.certificate {
        query.attributes["issuer"] = .bytes(certificate.fields.issuer)
        query.attributes["serial"] = .bytes(certificate.fields.serial)
    }
    if wanted.isSynchronizable { query.attributes[KeychainAttribute.synchronizable] = .flag(true) }
    let fixed = query
    var found: [SecretItem]
    if let references = wanted.references {
        found = try code { () throws(SecretError) in try store.items(references).filter { fixed.matches($0) } }
    } else {
        // Of several that match, an item with only these attributes is as good as any other, and it is found at once.
        if limit == 1, let exact = try code({ () throws(SecretError) in try store.exact(fixed) }), fits(exact, wanted) {
            return [exact]
        }
        found = try code { () throws(SecretError) in try store.list(fixed).items }
    }
    found.removeAll { !fits($0, wanted) }
    guard !found.isEmpty else { throw SecurityFailure(errSecItemNotFound) }
    found.sort { ($0.created, $0.file) < ($1.created, $1.file) }
    return limit.map { Array(found.prefix($0)) } ?? found
}

/// Whether an item satisfies those conditions of a query that the store does not know.
private func fits(_ item: SecretItem, _ wanted: ItemDictionary) -> Bool {
    guard wanted.flags.isEmpty, item.kind != .desktop else { return false }
    if let accessible = wanted.accessible, ItemDictionary.accessible(item) != accessible { return false }
    if let created = wanted.created, !isSame(item.created, created) { return false }
    if let modified = wanted.modified, !isSame(item.modified, modified) { return false }
    let isSynchronizable = item.attributes[KeychainAttribute.synchronizable] == .flag(true)
    return switch wanted.synchronizable {
    case .any: true
    case .only(let wanted): isSynchronizable == wanted
    // A persistent reference names one item, whatever it is.
    case .unsaid: !isSynchronizable || wanted.references != nil
    }
}

/// Whether two times are the same to a `Date`, whose fractions of a second have fewer digits.
private func isSame(_ one: Int64, _ other: Int64) -> Bool {
    Date(timeIntervalSince1970: Double(one) / 1e9) == Date(timeIntervalSince1970: Double(other) / 1e9)
}

/// Throws before the first change if a change of identifying attributes would meet another item, or if one of several items
/// is closed.
private func checkNames(
    _ planned: [(old: SecretItem, new: SecretItem)], _ store: SecretStore
) throws(SecurityFailure) {
    guard planned.count > 1 else { return }
    guard Set(planned.map(\.new.name)).count == planned.count else { throw SecurityFailure(errSecDuplicateItem) }
    for (item, new) in planned {
        try code { () throws(SecretError) in
            if new.name != item.file, try store.item(named: new.name) != nil { throw .duplicate }
        }
        _ = try unlessGone { () throws(SecretError) in _ = try store.secret(of: item) }
    }
}

/// Copies a secret from `Data` to locked memory.
private func locked(_ data: Data) throws(SecretError) -> SecretBytes {
    guard data.count <= SecretStore.largestSecret else { throw .tooLong }
    do throws(SodiumError) { return try SecretBytes(copying: data.span) } catch { throw .memory(error) }
}

/// Copies a secret from locked memory.
private func copy(_ secret: borrowing SecretBytes) -> Data {
    secret.withBytes { bytes in unsafe bytes.withUnsafeBytes { unsafe Data($0) } }
}

/// The result of `body`; nil if another program has removed the item, or changed it.
private func unlessGone<Result>(_ body: () throws(SecretError) -> Result) throws(SecurityFailure) -> Result? {
    do throws(SecretError) { return try body() } catch {
        switch error {
        case .notFound, .changed: return nil
        default: throw SecurityFailure(status(error))
        }
    }
}

private func code<Result: ~Copyable>(_ body: () throws(SecretError) -> Result) throws(SecurityFailure) -> Result {
    do throws(SecretError) { return try body() } catch { throw SecurityFailure(status(error)) }
}

private func status(_ error: SecretError) -> OSStatus {
    switch error {
    case .locked: errSecInteractionNotAllowed
    case .duplicate: errSecDuplicateItem
    case .changed: errSecIO
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

extension SecretStore {
    /// The stored items that persistent references name.
    fileprivate func items(_ references: [Data]) throws(SecretError) -> [SecretItem] {
        var found: [SecretItem] = []
        for data in references {
            guard let (kind, bytes) = ItemResult.reference(data), let item = try item(reference: bytes),
                ItemResult.isKind(kind, item)
            else { continue }
            found.append(item)
        }
        return found
    }
}
