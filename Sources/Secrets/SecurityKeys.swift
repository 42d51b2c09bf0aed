// The keys and values of item dictionaries, with the names and texts of Security.framework.

/// Text. It makes `kSecClass as String` compile.
public typealias CFString = String
/// An item dictionary.
public typealias CFDictionary = [String: Any]
/// A result. Cast it to `Data`, `[String: Any]` or an array of them.
public typealias CFTypeRef = AnyObject
/// A truth value.
public typealias CFBoolean = Bool

/// True.
public let kCFBooleanTrue: CFBoolean! = true
/// False.
public let kCFBooleanFalse: CFBoolean! = false

// MARK: Classes of items

/// The key for the kind of item. Its value is `kSecClassGenericPassword` or `kSecClassInternetPassword`.
public let kSecClass: CFString = "class"
/// A generic password, for an account of a service.
public let kSecClassGenericPassword: CFString = "genp"
/// An internet password, for an account of a server.
public let kSecClassInternetPassword: CFString = "inet"

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

// MARK: Attributes

/// The account name. It is part of an item's identity.
public let kSecAttrAccount: CFString = "acct"
/// The service. It is part of the identity of a generic password.
public let kSecAttrService: CFString = "svce"
/// The access group. It is part of an item's identity, but not a permission in this library.
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
/// When the item was stored, a `Date`; only in results.
public let kSecAttrCreationDate: CFString = "cdat"
/// When the item was last changed, a `Date`; only in results.
public let kSecAttrModificationDate: CFString = "mdat"
/// Whether the item is synchronized to other devices. The library accepts only false, and `kSecAttrSynchronizableAny`
/// in a query.
public let kSecAttrSynchronizable: CFString = "sync"
/// Matches items whether or not they are synchronized.
public let kSecAttrSynchronizableAny: CFString = "syna"

// MARK: Protocols and kinds of authentication

/// HTTP.
public let kSecAttrProtocolHTTP: CFString = "http"
/// HTTPS.
public let kSecAttrProtocolHTTPS: CFString = "htps"
/// FTP.
public let kSecAttrProtocolFTP: CFString = "ftp "
/// SSH.
public let kSecAttrProtocolSSH: CFString = "ssh "
/// SMTP.
public let kSecAttrProtocolSMTP: CFString = "smtp"
/// IMAP.
public let kSecAttrProtocolIMAP: CFString = "imap"
/// IMAP over TLS.
public let kSecAttrProtocolIMAPS: CFString = "imps"
/// POP3.
public let kSecAttrProtocolPOP3: CFString = "pop3"
/// LDAP.
public let kSecAttrProtocolLDAP: CFString = "ldap"
/// The protocol's default authentication.
public let kSecAttrAuthenticationTypeDefault: CFString = "dflt"
/// HTTP basic authentication.
public let kSecAttrAuthenticationTypeHTTPBasic: CFString = "http"
/// HTTP digest authentication.
public let kSecAttrAuthenticationTypeHTTPDigest: CFString = "httd"
/// Authentication with an HTML form.
public let kSecAttrAuthenticationTypeHTMLForm: CFString = "form"

// MARK: Queries and results

/// The secret, as `Data`.
public let kSecValueData: CFString = "v_Data"
/// The most items to return: one of the values below or a number. The default is one.
public let kSecMatchLimit: CFString = "m_Limit"
/// Returns the first item that matches.
public let kSecMatchLimitOne: CFString = "m_LimitOne"
/// Returns all items that match.
public let kSecMatchLimitAll: CFString = "m_LimitAll"
/// Whether to compare text without regard to case.
public let kSecMatchCaseInsensitive: CFString = "m_CaseInsensitive"
/// Whether to return the secret.
public let kSecReturnData: CFString = "r_Data"
/// Whether to return the attributes.
public let kSecReturnAttributes: CFString = "r_Attributes"
/// Whether to return a reference. The library does not support it.
public let kSecReturnRef: CFString = "r_Ref"
/// Whether to return a persistent reference. The library does not support it.
public let kSecReturnPersistentRef: CFString = "r_PersistentRef"
/// The text of a prompt. It is ignored, because the library never prompts.
public let kSecUseOperationPrompt: CFString = "u_OpPrompt"
/// Whether to use the data protection keychain. It is ignored, because the library has no other.
public let kSecUseDataProtectionKeychain: CFString = "nleg"
