// The attributes of keys and certificates, with the names and texts of Security.framework.

// protectfs: plain Foundation: values in memory, no files.
public import Foundation

/// Whether a key is public, private or symmetric: one of the values below. It is part of the identity of a key.
public var kSecAttrKeyClass: CFString { "kcls" }
/// A public key.
public var kSecAttrKeyClassPublic: CFString { "0" }
/// A private key.
public var kSecAttrKeyClassPrivate: CFString { "1" }
/// A symmetric key.
public var kSecAttrKeyClassSymmetric: CFString { "2" }
/// Bytes by which programs find a key. It is part of the identity of a key.
public var kSecAttrApplicationLabel: CFString { "klbl" }
/// A tag for programs, as `Data`. It is part of the identity of a key.
public var kSecAttrApplicationTag: CFString { "atag" }
/// The algorithm: one of the values below, or another number. It is part of the identity of a key.
public var kSecAttrKeyType: CFString { "type" }
/// RSA.
public var kSecAttrKeyTypeRSA: CFString { "42" }
/// Elliptic curves.
public var kSecAttrKeyTypeEC: CFString { "73" }
/// Elliptic curves of the prime kind.
public var kSecAttrKeyTypeECSECPrimeRandom: CFString { "73" }
/// The number of bits. It is part of the identity of a key.
public var kSecAttrKeySizeInBits: CFString { "bsiz" }
/// The number of bits in use. It is part of the identity of a key.
public var kSecAttrEffectiveKeySize: CFString { "esiz" }
/// Whether a key is stored; every stored key is.
public var kSecAttrIsPermanent: CFString { "perm" }
/// Whether a key encrypts.
public var kSecAttrCanEncrypt: CFString { "encr" }
/// Whether a key decrypts.
public var kSecAttrCanDecrypt: CFString { "decr" }
/// Whether a key derives others.
public var kSecAttrCanDerive: CFString { "drve" }
/// Whether a key signs.
public var kSecAttrCanSign: CFString { "sign" }
/// Whether a key verifies.
public var kSecAttrCanVerify: CFString { "vrfy" }
/// Whether a key wraps others.
public var kSecAttrCanWrap: CFString { "wrap" }
/// Whether a key unwraps others.
public var kSecAttrCanUnwrap: CFString { "unwp" }
/// The form of a certificate. It is part of the identity of a certificate.
public var kSecAttrCertificateType: CFString { "ctyp" }
/// The encoding of a certificate.
public var kSecAttrCertificateEncoding: CFString { "cenc" }
/// The subject of a certificate (DER); only in results and queries.
public var kSecAttrSubject: CFString { "subj" }
/// The issuer of a certificate (DER); only in results and queries. It is part of the identity of a certificate.
public var kSecAttrIssuer: CFString { "issr" }
/// The serial number of a certificate; only in results and queries. It is part of the identity of a certificate.
public var kSecAttrSerialNumber: CFString { "slnr" }
/// The hardware that keeps a key. The library does not support it.
public var kSecAttrTokenID: CFString { "tkid" }
/// The Secure Enclave. The library does not support it.
public var kSecAttrTokenIDSecureEnclave: CFString { "com.apple.setoken" }
