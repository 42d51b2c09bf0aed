// Access control of an item: its accessibility, and flags that ask for a person.

// protectfs: plain Foundation: values in memory, no files.
public import Foundation

/// The protection of an item (Apple's `SecAccessControl`). Make it with `SecAccessControlCreateWithFlags`.
public final class SecAccessControl: Hashable, Sendable, CustomStringConvertible {
    /// The accessibility, one of `kSecAttrAccessible…`.
    let protection: String
    /// What a person must do at each use.
    let flags: SecAccessControlCreateFlags

    init(_ protection: String, _ flags: SecAccessControlCreateFlags = []) {
        self.protection = protection
        self.flags = flags
    }

    /// The accessibility and the flags, for a log.
    public var description: String { "<SecAccessControl: \(protection) \(flags.rawValue)>" }

    /// Whether both protect in the same way.
    public static func == (one: SecAccessControl, other: SecAccessControl) -> Bool {
        one.protection == other.protection && one.flags == other.flags
    }

    /// Hashes what `==` compares.
    public func hash(into hasher: inout Hasher) {
        hasher.combine(protection)
        hasher.combine(flags.rawValue)
    }
}

/// What a person must do to use an item. Nobody can be asked here, so an item with a flag is never stored: `SecItemAdd`
/// and `SecItemUpdate` give `errSecUnimplemented`, and no query finds one.
public struct SecAccessControlCreateFlags: OptionSet, Sendable {
    /// The flags as bits.
    public let rawValue: CFOptionFlags

    /// Flags from bits.
    public init(rawValue: CFOptionFlags) { self.rawValue = rawValue }

    /// A fingerprint, a face or the passcode.
    public static let userPresence = Self(rawValue: 1 << 0)
    /// A fingerprint or a face, also one that is enrolled later.
    public static let biometryAny = Self(rawValue: 1 << 1)
    /// The former name of `biometryAny`.
    public static let touchIDAny = biometryAny
    /// A fingerprint or a face that is enrolled now.
    public static let biometryCurrentSet = Self(rawValue: 1 << 3)
    /// The former name of `biometryCurrentSet`.
    public static let touchIDCurrentSet = biometryCurrentSet
    /// The passcode.
    public static let devicePasscode = Self(rawValue: 1 << 4)
    /// A watch nearby.
    public static let watch = Self(rawValue: 1 << 5)
    /// The newer name of `watch`.
    public static let companion = watch
    /// One of the conditions is enough.
    public static let or = Self(rawValue: 1 << 14)
    /// All conditions must hold.
    public static let and = Self(rawValue: 1 << 15)
    /// The key signs and is not read.
    public static let privateKeyUsage = Self(rawValue: 1 << 30)
    /// A password of the program's own.
    public static let applicationPassword = Self(rawValue: 1 << 31)

    fileprivate static let all: Self = [
        userPresence, biometryAny, biometryCurrentSet, devicePasscode, watch, or, and, privateKeyUsage,
        applicationPassword,
    ]
}

/// Makes the value of `kSecAttrAccessControl` (Apple's `SecAccessControlCreateWithFlags`).
///
/// - Parameters:
///   - allocator: not used; pass nil or `kCFAllocatorDefault`.
///   - protection: the accessibility, one of `kSecAttrAccessible…`.
///   - flags: what a person must do. An empty set makes a value that is the same as the accessibility alone.
///   - error: receives an error with `errSecParam` as its code if an accessibility or a flag is not known.
/// - Returns: nil if an argument is not known.
public func SecAccessControlCreateWithFlags(
    _ allocator: CFAllocator?, _ protection: Any, _ flags: SecAccessControlCreateFlags,
    _ error: UnsafeMutablePointer<Unmanaged<CFError>?>?
) -> SecAccessControl? {
    if let word = protection as? String, ItemDictionary.protectionClass(word) != nil,
        flags.subtracting(.all).isEmpty
    {
        return SecAccessControl(word, flags)
    }
    let failure = NSError(
        domain: NSOSStatusErrorDomain, code: Int(errSecParam),
        userInfo: [NSLocalizedDescriptionKey: SecCopyErrorMessageString(errSecParam, nil) as String? ?? ""])
    // The caller's pointer is valid during the call, as for every inout argument. The caller releases the error.
    if let error = unsafe error { unsafe error.pointee = Unmanaged.passRetained(failure) }
    return nil
}
