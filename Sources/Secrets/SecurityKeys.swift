// The keys and values of item dictionaries, with their names and texts of Security.framework.

/// Text, as `kSecClass as String` wants it.
public typealias CFString = String
/// A dictionary of keys and values.
public typealias CFDictionary = [String: Any]
/// A result: cast it to `Data`, `[String: Any]` or an array of them.
public typealias CFTypeRef = AnyObject
/// A truth value.
public typealias CFBoolean = Bool

/// True.
public let kCFBooleanTrue: CFBoolean! = true
/// False.
public let kCFBooleanFalse: CFBoolean! = false

// MARK: Classes of items

/// Generic or internet password.
public let kSecClass: CFString = "class"
/// An account of a service.
public let kSecClassGenericPassword: CFString = "genp"
/// An account of a server.
public let kSecClassInternetPassword: CFString = "inet"

// MARK: When an item can be had

/// One of the values below; without one, `kSecAttrAccessibleWhenUnlocked`.
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

/// The account: part of what identifies an item of either class.
public let kSecAttrAccount: CFString = "acct"
/// The service: part of what identifies a generic password.
public let kSecAttrService: CFString = "svce"
/// The access group: part of what identifies an item; not a permission here.
public let kSecAttrAccessGroup: CFString = "agrp"
/// What a person calls it.
public let kSecAttrLabel: CFString = "labl"
/// What kind of item a person calls it.
public let kSecAttrDescription: CFString = "desc"
/// A comment.
public let kSecAttrComment: CFString = "icmt"
/// Four characters as a number.
public let kSecAttrCreator: CFString = "crtr"
/// Four characters as a number.
public let kSecAttrType: CFString = "type"
/// Whether it is hidden from people.
public let kSecAttrIsInvisible: CFString = "invi"
/// Whether there is no valid password in it.
public let kSecAttrIsNegative: CFString = "nega"
/// Bytes of the program's own.
public let kSecAttrGeneric: CFString = "gena"
/// The security domain: part of what identifies an internet password.
public let kSecAttrSecurityDomain: CFString = "sdmn"
/// The server: part of what identifies an internet password.
public let kSecAttrServer: CFString = "srvr"
/// The protocol: part of what identifies an internet password.
public let kSecAttrProtocol: CFString = "ptcl"
/// How one authenticates: part of what identifies an internet password.
public let kSecAttrAuthenticationType: CFString = "atyp"
/// The port: part of what identifies an internet password.
public let kSecAttrPort: CFString = "port"
/// The path: part of what identifies an internet password.
public let kSecAttrPath: CFString = "path"
/// When it was made; only in results.
public let kSecAttrCreationDate: CFString = "cdat"
/// When it was changed last; only in results.
public let kSecAttrModificationDate: CFString = "mdat"
/// Whether it goes to other devices: false, or `kSecAttrSynchronizableAny` in a query.
public let kSecAttrSynchronizable: CFString = "sync"
/// Either.
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
/// The protocol's own way.
public let kSecAttrAuthenticationTypeDefault: CFString = "dflt"
/// HTTP basic authentication.
public let kSecAttrAuthenticationTypeHTTPBasic: CFString = "http"
/// HTTP digest authentication.
public let kSecAttrAuthenticationTypeHTTPDigest: CFString = "httd"
/// A form.
public let kSecAttrAuthenticationTypeHTMLForm: CFString = "form"

// MARK: Queries and results

/// The secret, as `Data`.
public let kSecValueData: CFString = "v_Data"
/// How many items: one of the values below, or a number; without it, one.
public let kSecMatchLimit: CFString = "m_Limit"
/// The first that matches.
public let kSecMatchLimitOne: CFString = "m_LimitOne"
/// All that match.
public let kSecMatchLimitAll: CFString = "m_LimitAll"
/// Whether text is compared without regard to case.
public let kSecMatchCaseInsensitive: CFString = "m_CaseInsensitive"
/// Whether the secret is wanted.
public let kSecReturnData: CFString = "r_Data"
/// Whether the attributes are wanted.
public let kSecReturnAttributes: CFString = "r_Attributes"
/// A reference; not to be had here.
public let kSecReturnRef: CFString = "r_Ref"
/// A lasting reference; not to be had here.
public let kSecReturnPersistentRef: CFString = "r_PersistentRef"
/// What a person would be told; there is nobody asked here.
public let kSecUseOperationPrompt: CFString = "u_OpPrompt"
/// Whether to use this kind of keychain; there is no other here.
public let kSecUseDataProtectionKeychain: CFString = "nleg"
