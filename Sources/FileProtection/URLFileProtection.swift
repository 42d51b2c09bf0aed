// The class as the value of a URL's resource key, and what casts between both types of a class.

import PlainFoundation

/// The class of a file as a resource value (Apple's `URLFileProtection`). The raw values are those of
/// `FileProtectionType`.
public struct URLFileProtection: Hashable, RawRepresentable, Sendable {
    /// The name of the class, such as `NSFileProtectionComplete`.
    public let rawValue: String

    /// Makes a value from the name of a class.
    public init(rawValue: String) { self.rawValue = rawValue }

    /// The file can be used while the volume is unlocked.
    public static let complete = URLFileProtection(rawValue: FileProtectionType.complete.rawValue)
    /// The file can be opened while the volume is unlocked. Open files can be used while it is locked.
    public static let completeUnlessOpen = URLFileProtection(rawValue: FileProtectionType.completeUnlessOpen.rawValue)
    /// The file can be used after the first unlock, and for some time after a lock.
    public static let completeWhenUserInactive = URLFileProtection(
        rawValue: FileProtectionType.completeWhenUserInactive.rawValue)
    /// The file can be used after the first unlock.
    public static let completeUntilFirstUserAuthentication = URLFileProtection(
        rawValue: FileProtectionType.completeUntilFirstUserAuthentication.rawValue)
    /// The file can be used in every state, but is encrypted.
    public static let none = URLFileProtection(rawValue: FileProtectionType.none.rawValue)
}

// On Apple's platforms both types are strings of Objective-C, and programs cast between them.

/// What casts between the name of a class and its Swift type need.
public protocol BridgedClassName: _ObjectiveCBridgeable, RawRepresentable
where RawValue == String, _ObjectiveCType == NSString {
    /// The class for a name.
    init(rawValue: String)
}

extension BridgedClassName {
    /// The name as an object.
    public func _bridgeToObjectiveC() -> NSString { NSString(string: rawValue) }

    /// The class for a name as an object.
    public static func _unconditionallyBridgeFromObjectiveC(_ source: NSString?) -> Self {
        Self(rawValue: String._unconditionallyBridgeFromObjectiveC(source))
    }

    /// The class for a name as an object.
    public static func _forceBridgeFromObjectiveC(_ source: NSString, result: inout Self?) {
        result = _unconditionallyBridgeFromObjectiveC(source)
    }

    /// The class for a name as an object.
    public static func _conditionallyBridgeFromObjectiveC(_ source: NSString, result: inout Self?) -> Bool {
        result = _unconditionallyBridgeFromObjectiveC(source)
        return true
    }
}

extension URLFileProtection: BridgedClassName {}
extension FileProtectionType: BridgedClassName, @retroactive _ObjectiveCBridgeable {}
