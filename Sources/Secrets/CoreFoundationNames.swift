// The names of CoreFoundation that programs of the keychain use. They are Foundation's own classes here, to which `as` converts
// Swift's types, as on Apple's platforms.

// protectfs: plain Foundation: values in memory, no files.
public import Foundation

/// Text. `kSecClass as String` gives Swift's.
public typealias CFString = NSString
/// Bytes.
public typealias CFData = NSData
/// A number.
public typealias CFNumber = NSNumber
/// A point in time.
public typealias CFDate = NSDate
/// A list.
public typealias CFArray = NSArray
/// An item dictionary.
public typealias CFDictionary = NSDictionary
/// An item dictionary that is made step by step.
public typealias CFMutableDictionary = NSMutableDictionary
/// A result. Cast it to `Data`, `[String: Any]` or an array of them.
public typealias CFTypeRef = AnyObject
/// A truth value.
public typealias CFBoolean = NSNumber
/// A count or an index.
public typealias CFIndex = Int
/// Flags of an option set.
public typealias CFOptionFlags = UInt

/// True.
public var kCFBooleanTrue: CFBoolean! { NSNumber(value: true) }
/// False.
public var kCFBooleanFalse: CFBoolean! { NSNumber(value: false) }

/// The allocator that calls of CoreFoundation are given. There is none to choose, so its only value is nil.
public enum CFAllocator: Sendable {}
/// The default allocator.
public let kCFAllocatorDefault: CFAllocator? = nil

/// An error. It is thrown and cast as every other NSError.
public typealias CFError = NSError

/// The domain of an error.
public func CFErrorGetDomain(_ error: CFError!) -> CFString { error.domain as CFString }

/// The code of an error.
public func CFErrorGetCode(_ error: CFError!) -> CFIndex { error.code }

/// The details of an error.
public func CFErrorCopyUserInfo(_ error: CFError!) -> CFDictionary {
    error.userInfo as CFDictionary
}

/// An error in one sentence.
public func CFErrorCopyDescription(_ error: CFError!) -> CFString {
    error.localizedDescription as CFString
}

/// The number of a type, to ask what a result is.
public typealias CFTypeID = UInt

/// The number of the type of a result; 0 for a type that no result has.
public func CFGetTypeID(_ object: CFTypeRef!) -> CFTypeID {
    switch object {
    case is CFString: CFStringGetTypeID()
    case is CFData: CFDataGetTypeID()
    case is CFNumber: CFNumberGetTypeID()
    case is CFDate: CFDateGetTypeID()
    case is CFArray: CFArrayGetTypeID()
    case is CFDictionary: CFDictionaryGetTypeID()
    case is SecCertificate: SecCertificateGetTypeID()
    case is SecAccessControl: SecAccessControlGetTypeID()
    default: 0
    }
}

/// The number of `CFString`.
public func CFStringGetTypeID() -> CFTypeID { 1 }
/// The number of `CFData`.
public func CFDataGetTypeID() -> CFTypeID { 2 }
/// The number of `CFNumber`.
public func CFNumberGetTypeID() -> CFTypeID { 3 }
/// The number of `CFBoolean`, which is that of a number here.
public func CFBooleanGetTypeID() -> CFTypeID { CFNumberGetTypeID() }
/// The number of `CFDate`.
public func CFDateGetTypeID() -> CFTypeID { 4 }
/// The number of `CFArray`.
public func CFArrayGetTypeID() -> CFTypeID { 5 }
/// The number of `CFDictionary`.
public func CFDictionaryGetTypeID() -> CFTypeID { 6 }
/// The number of `SecCertificate`.
public func SecCertificateGetTypeID() -> CFTypeID { 7 }
/// The number of `SecAccessControl`.
public func SecAccessControlGetTypeID() -> CFTypeID { 8 }
