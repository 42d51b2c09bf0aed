// The keys of queries and results, and their values, with the names and texts of Security.framework.

// protectfs: plain Foundation: values in memory, no files.
public import Foundation

// MARK: Queries and results

/// The secret, as `Data`.
public var kSecValueData: CFString { "v_Data" }
/// A reference: a `SecCertificate`.
public var kSecValueRef: CFString { "v_Ref" }
/// A persistent reference, `Data` that `kSecReturnPersistentRef` gave. The query then needs no `kSecClass`.
public var kSecValuePersistentRef: CFString { "v_PersistentRef" }
/// The most items to return: one of the values below or a number. The default is one.
public var kSecMatchLimit: CFString { "m_Limit" }
/// Returns the first item that matches.
public var kSecMatchLimitOne: CFString { "m_LimitOne" }
/// Returns all items that match.
public var kSecMatchLimitAll: CFString { "m_LimitAll" }
/// Whether to compare text without regard to case.
public var kSecMatchCaseInsensitive: CFString { "m_CaseInsensitive" }
/// The items to look at: an array of persistent references.
public var kSecMatchItemList: CFString { "m_ItemList" }
/// A text in a certificate's subject. The library does not support it.
public var kSecMatchSubjectContains: CFString { "m_SubjectContains" }
/// A mail address of a certificate. The library does not support it.
public var kSecMatchEmailAddressIfPresent: CFString { "m_EmailAddressIfPresent" }
/// The issuers of a certificate. The library does not support it.
public var kSecMatchIssuers: CFString { "m_Issuers" }
/// The policy of a certificate. The library does not support it.
public var kSecMatchPolicy: CFString { "m_Policy" }
/// Whether a certificate must be trusted. The library does not support it.
public var kSecMatchTrustedOnly: CFString { "m_TrustedOnly" }
/// When a certificate must be valid. The library does not support it.
public var kSecMatchValidOnDate: CFString { "m_ValidOnDate" }
/// Whether to return the secret.
public var kSecReturnData: CFString { "r_Data" }
/// Whether to return the attributes.
public var kSecReturnAttributes: CFString { "r_Attributes" }
/// Whether to return a reference, which only certificates have.
public var kSecReturnRef: CFString { "r_Ref" }
/// Whether to return a persistent reference, as `Data`. It stays valid when the item changes.
public var kSecReturnPersistentRef: CFString { "r_PersistentRef" }
/// The text of a prompt. It is ignored, because the library never prompts.
public var kSecUseOperationPrompt: CFString { "u_OpPrompt" }
/// Whether to use the data protection keychain. It is ignored, because the library has no other.
public var kSecUseDataProtectionKeychain: CFString { "nleg" }
/// Whether a question to a person is allowed: one of the following values. Nobody is ever asked.
public var kSecUseAuthenticationUI: CFString { "u_AuthUI" }
/// A person may be asked.
public var kSecUseAuthenticationUIAllow: CFString { "u_AuthUIA" }
/// An item that needs a person gives `errSecInteractionNotAllowed`.
public var kSecUseAuthenticationUIFail: CFString { "u_AuthUIF" }
/// Items that need a person are left out.
public var kSecUseAuthenticationUISkip: CFString { "u_AuthUIS" }
/// The older key for `kSecUseAuthenticationUIFail`: a truth value.
public var kSecUseNoAuthenticationUI: CFString { "u_NoAuthUI" }
/// An `LAContext`. It is not used, because nobody is ever asked.
public var kSecUseAuthenticationContext: CFString { "u_AuthCtx" }
