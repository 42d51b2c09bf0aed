// The keys and values of item dictionaries, with the names and texts of Security.framework.

// MARK: Classes of items

/// The key for the kind of item. Its value is one of the following.
public let kSecClass: CFString = "class"
/// A generic password, for an account of a service.
public let kSecClassGenericPassword: CFString = "genp"
/// An internet password, for an account of a server.
public let kSecClassInternetPassword: CFString = "inet"

/// A cryptographic key, which is kept as the bytes in `kSecValueData`.
public let kSecClassKey: CFString = "keys"
/// A certificate (DER), in `kSecValueData` or as `SecCertificate` in `kSecValueRef`.
public let kSecClassCertificate: CFString = "cert"
/// A certificate with its key. There are none: nothing is ever found, and none can be added.
public let kSecClassIdentity: CFString = "idnt"

// MARK: Accessibility

/// The key for the item's accessibility, which determines its protection class. The default is
/// `kSecAttrAccessibleWhenUnlocked`.
public let kSecAttrAccessible: CFString = "pdmn"
/// Class `complete`.
public let kSecAttrAccessibleWhenUnlocked: CFString = "ak"
/// Class `completeUntilFirstUserAuthentication`.
public let kSecAttrAccessibleAfterFirstUnlock: CFString = "ck"
/// Class `none`.
public let kSecAttrAccessibleAlways: CFString = "dk"
/// Class `complete`.
public let kSecAttrAccessibleWhenPasscodeSetThisDeviceOnly: CFString = "akpu"
/// Class `complete`.
public let kSecAttrAccessibleWhenUnlockedThisDeviceOnly: CFString = "aku"
/// Class `completeUntilFirstUserAuthentication`.
public let kSecAttrAccessibleAfterFirstUnlockThisDeviceOnly: CFString = "cku"
/// Class `none`.
public let kSecAttrAccessibleAlwaysThisDeviceOnly: CFString = "dku"
/// The key for a `SecAccessControl`, in place of `kSecAttrAccessible`. Every result with attributes has it.
public let kSecAttrAccessControl: CFString = "accc"

// MARK: Attributes

/// The account name. It is part of an item's identity.
public let kSecAttrAccount: CFString = "acct"
/// The service. It is part of the identity of a generic password.
public let kSecAttrService: CFString = "svce"
/// The access group. It is part of an item's identity, but not a permission in this library. A new item without one is in
/// `SecretsMount.accessGroup`.
public let kSecAttrAccessGroup: CFString = "agrp"
/// The item's name for people.
public let kSecAttrLabel: CFString = "labl"
/// The kind of item, described for people.
public let kSecAttrDescription: CFString = "desc"
/// A comment.
public let kSecAttrComment: CFString = "icmt"
/// Four characters as a number.
public let kSecAttrCreator: CFString = "crtr"
/// Four characters as a number.
public let kSecAttrType: CFString = "type"
/// Whether to hide the item from people.
public let kSecAttrIsInvisible: CFString = "invi"
/// Whether the item has no valid password.
public let kSecAttrIsNegative: CFString = "nega"
/// Bytes that the program defines.
public let kSecAttrGeneric: CFString = "gena"
/// The security domain. It is part of the identity of an internet password.
public let kSecAttrSecurityDomain: CFString = "sdmn"
/// The server. It is part of the identity of an internet password.
public let kSecAttrServer: CFString = "srvr"
/// The protocol, one of the values below. It is part of the identity of an internet password.
public let kSecAttrProtocol: CFString = "ptcl"
/// The kind of authentication, one of the values below. It is part of the identity of an internet password.
public let kSecAttrAuthenticationType: CFString = "atyp"
/// The port number. It is part of the identity of an internet password.
public let kSecAttrPort: CFString = "port"
/// The path of the URL. It is part of the identity of an internet password.
public let kSecAttrPath: CFString = "path"
/// When the item was stored, a `Date`. The store sets it unless the program does.
public let kSecAttrCreationDate: CFString = "cdat"
/// When the item was last changed, a `Date`. The store sets it unless a program adds an item with it.
public let kSecAttrModificationDate: CFString = "mdat"
/// Whether the program asked that the item be synchronized. It is part of an item's identity, and nothing leaves this
/// machine. A query without it finds only items for which it is false.
public let kSecAttrSynchronizable: CFString = "sync"
/// Matches items whether or not they are synchronizable.
public let kSecAttrSynchronizableAny: CFString = "syna"
/// The persistent reference, as an attribute.
public let kSecAttrPersistentReference: CFString = "persistref"
/// The same key with Apple's older spelling.
public let kSecAttrPersistantReference: CFString = kSecAttrPersistentReference
