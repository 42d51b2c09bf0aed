// The keys and values of item dictionaries, with the names and texts of Security.framework.

// protectfs: plain Foundation: values in memory, no files.
public import Foundation

// MARK: Classes of items

/// The key for the kind of item. Its value is one of the following.
public var kSecClass: CFString { "class" }
/// A generic password, for an account of a service.
public var kSecClassGenericPassword: CFString { "genp" }
/// An internet password, for an account of a server.
public var kSecClassInternetPassword: CFString { "inet" }

/// A cryptographic key, which is kept as the bytes in `kSecValueData`.
public var kSecClassKey: CFString { "keys" }
/// A certificate (DER), in `kSecValueData` or as `SecCertificate` in `kSecValueRef`.
public var kSecClassCertificate: CFString { "cert" }
/// A certificate with its key. There are none: nothing is ever found, and none can be added.
public var kSecClassIdentity: CFString { "idnt" }

// MARK: Accessibility

/// The key for the item's accessibility, which determines its protection class. The default is
/// `kSecAttrAccessibleWhenUnlocked`.
public var kSecAttrAccessible: CFString { "pdmn" }
/// Class `complete`.
public var kSecAttrAccessibleWhenUnlocked: CFString { "ak" }
/// Class `completeUntilFirstUserAuthentication`.
public var kSecAttrAccessibleAfterFirstUnlock: CFString { "ck" }
/// Class `none`.
public var kSecAttrAccessibleAlways: CFString { "dk" }
/// Class `complete`.
public var kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly: CFString { "akpu" }
/// Class `complete`.
public var kSecAttrAccessibleWhenUnlockedThisDeviceOnly: CFString { "aku" }
/// Class `completeUntilFirstUserAuthentication`.
public var kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly: CFString { "cku" }
/// Class `none`.
public var kSecAttrAccessibleAlwaysThisDeviceOnly: CFString { "dku" }
/// The key for a `SecAccessControl`, in place of `kSecAttrAccessible`. Every result with attributes has it.
public var kSecAttrAccessControl: CFString { "accc" }

// MARK: Attributes

/// The account name. It is part of an item's identity.
public var kSecAttrAccount: CFString { "acct" }
/// The service. It is part of the identity of a generic password.
public var kSecAttrService: CFString { "svce" }
/// The access group. It is part of an item's identity, but not a permission in this library. A new item without one is in
/// `SecretsMount.accessGroup`.
public var kSecAttrAccessGroup: CFString { "agrp" }
/// The item's name for people.
public var kSecAttrLabel: CFString { "labl" }
/// The kind of item, described for people.
public var kSecAttrDescription: CFString { "desc" }
/// A comment.
public var kSecAttrComment: CFString { "icmt" }
/// Four characters as a number.
public var kSecAttrCreator: CFString { "crtr" }
/// Four characters as a number.
public var kSecAttrType: CFString { "type" }
/// Whether to hide the item from people.
public var kSecAttrIsInvisible: CFString { "invi" }
/// Whether the item has no valid password.
public var kSecAttrIsNegative: CFString { "nega" }
/// Bytes that the program defines.
public var kSecAttrGeneric: CFString { "gena" }
/// The security domain. It is part of the identity of an internet password.
public var kSecAttrSecurityDomain: CFString { "sdmn" }
/// The server. It is part of the identity of an internet password.
public var kSecAttrServer: CFString { "srvr" }
/// The protocol, one of the values below. It is part of the identity of an internet password.
public var kSecAttrProtocol: CFString { "ptcl" }
/// The kind of authentication, one of the values below. It is part of the identity of an internet password.
public var kSecAttrAuthenticationType: CFString { "atyp" }
/// The port number. It is part of the identity of an internet password.
public var kSecAttrPort: CFString { "port" }
/// The path of the URL. It is part of the identity of an internet password.
public var kSecAttrPath: CFString { "path" }
/// When the item was stored, a `Date`. The store sets it unless the program does.
public var kSecAttrCreationDate: CFString { "cdat" }
/// When the item was last changed, a `Date`. The store sets it unless a program adds an item with it.
public var kSecAttrModificationDate: CFString { "mdat" }
/// Whether the program asked that the item be synchronized. It is part of an item's identity, and nothing leaves this
/// machine. A query without it finds only items for which it is false.
public var kSecAttrSynchronizable: CFString { "sync" }
/// Matches items whether or not they are synchronizable.
public var kSecAttrSynchronizableAny: CFString { "syna" }
/// The persistent reference, as an attribute.
public var kSecAttrPersistentReference: CFString { "persistref" }
/// The same key with Apple's older spelling.
public var kSecAttrPersistantReference: CFString { kSecAttrPersistentReference }
