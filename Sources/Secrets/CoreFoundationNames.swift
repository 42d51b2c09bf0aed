// The names of CoreFoundation that programs of the keychain use. They are Swift's and Foundation's own types here.

// protectfs: plain Foundation: values in memory, no files.
public import Foundation

/// Text. It makes `kSecClass as String` compile.
public typealias CFString = String
/// Bytes.
public typealias CFData = Data
/// A number.
public typealias CFNumber = NSNumber
/// A point in time.
public typealias CFDate = Date
/// A list.
public typealias CFArray = [Any]
/// An item dictionary.
public typealias CFDictionary = [String: Any]
/// A result. Cast it to `Data`, `[String: Any]` or an array of them.
public typealias CFTypeRef = AnyObject
/// A truth value.
public typealias CFBoolean = Bool
/// A count or an index.
public typealias CFIndex = Int
/// Flags of an option set.
public typealias CFOptionFlags = UInt

/// True.
public let kCFBooleanTrue: CFBoolean! = true
/// False.
public let kCFBooleanFalse: CFBoolean! = false

/// The allocator that calls of CoreFoundation are given. There is none to choose, so its only value is nil.
public enum CFAllocator: Sendable {}
/// The default allocator.
public let kCFAllocatorDefault: CFAllocator? = nil

/// An error. It is thrown and cast as every other NSError.
public typealias CFError = NSError

/// The domain of an error.
public func CFErrorGetDomain(_ error: CFError!) -> CFString! { error.domain }

/// The code of an error.
public func CFErrorGetCode(_ error: CFError!) -> CFIndex { error.code }

/// The details of an error.
public func CFErrorCopyUserInfo(_ error: CFError!) -> CFDictionary! { error.userInfo }

/// An error in one sentence.
public func CFErrorCopyDescription(_ error: CFError!) -> CFString! { error.localizedDescription }
