// The attributes of keys and certificates, with the names and texts of Security.framework.

/// Whether a key is public, private or symmetric: one of the values below. It is part of the identity of a key.
public let kSecAttrKeyClass: CFString = "kcls"
/// A public key.
public let kSecAttrKeyClassPublic: CFString = "0"
/// A private key.
public let kSecAttrKeyClassPrivate: CFString = "1"
/// A symmetric key.
public let kSecAttrKeyClassSymmetric: CFString = "2"
/// Bytes by which programs find a key. It is part of the identity of a key.
public let kSecAttrApplicationLabel: CFString = "klbl"
/// A tag for programs, as `Data`. It is part of the identity of a key.
public let kSecAttrApplicationTag: CFString = "atag"
/// The algorithm: one of the values below, or another number. It is part of the identity of a key.
public let kSecAttrKeyType: CFString = "type"
/// RSA.
public let kSecAttrKeyTypeRSA: CFString = "42"
/// Elliptic curves.
public let kSecAttrKeyTypeEC: CFString = "73"
/// Elliptic curves of the prime kind.
public let kSecAttrKeyTypeECSECPrimeRandom: CFString = "73"
/// The number of bits. It is part of the identity of a key.
public let kSecAttrKeySizeInBits: CFString = "bsiz"
/// The number of bits in use. It is part of the identity of a key.
public let kSecAttrEffectiveKeySize: CFString = "esiz"
/// Whether a key is stored; every stored key is.
public let kSecAttrIsPermanent: CFString = "perm"
/// Whether a key encrypts.
public let kSecAttrCanEncrypt: CFString = "encr"
/// Whether a key decrypts.
public let kSecAttrCanDecrypt: CFString = "decr"
/// Whether a key derives others.
public let kSecAttrCanDerive: CFString = "drve"
/// Whether a key signs.
public let kSecAttrCanSign: CFString = "sign"
/// Whether a key verifies.
public let kSecAttrCanVerify: CFString = "vrfy"
/// Whether a key wraps others.
public let kSecAttrCanWrap: CFString = "wrap"
/// Whether a key unwraps others.
public let kSecAttrCanUnwrap: CFString = "unwp"
/// The form of a certificate. It is part of the identity of a certificate.
public let kSecAttrCertificateType: CFString = "ctyp"
/// The encoding of a certificate.
public let kSecAttrCertificateEncoding: CFString = "cenc"
/// The subject of a certificate (DER); only in results and queries.
public let kSecAttrSubject: CFString = "subj"
/// The issuer of a certificate (DER); only in results and queries. It is part of the identity of a certificate.
public let kSecAttrIssuer: CFString = "issr"
/// The serial number of a certificate; only in results and queries. It is part of the identity of a certificate.
public let kSecAttrSerialNumber: CFString = "slnr"
/// The hardware that keeps a key. The library does not support it.
public let kSecAttrTokenID: CFString = "tkid"
/// The Secure Enclave. The library does not support it.
public let kSecAttrTokenIDSecureEnclave: CFString = "com.apple.setoken"
