// Converts between Foundation's names of the classes and those of the mount.

import VolumeFormat

/// Converts `FileProtectionType` to values of the attribute `user.protection` and back.
public enum ProtectionClassName {
    /// The attribute's value for a class; nil if the type is none of the classes.
    public static func attributeValue(of type: FileProtectionType) -> String? {
        type.protectionClass?.canonicalName
    }

    /// The class for an attribute's value, which is a canonical name or an `NSFileProtection…` raw value; nil for other
    /// values.
    public static func type(ofAttributeValue value: String) -> FileProtectionType? {
        FileProtectionType.known.first { $0.protectionClass?.canonicalName == value || $0.rawValue == value }
    }
}

extension FileProtectionType {
    /// The file can be used from the first unlock on, and also for some time after a lock: until the time of the mount option
    /// `inactive` has run out. Then it is closed until the next unlock. Foundation on Linux lacks this name.
    public static let completeWhenUserInactive = FileProtectionType(
        rawValue: "\(ProtectionClass.completeWhenUserInactive.apple)")

    /// The names of all classes.
    static let known = ProtectionClass.allCases.map(FileProtectionType.init)

    /// Foundation's name of a class.
    init(_ protectionClass: ProtectionClass) {
        switch protectionClass {
        case .complete: self = .complete
        case .completeUnlessOpen: self = .completeUnlessOpen
        case .completeWhenUserInactive: self = .completeWhenUserInactive
        case .completeUntilFirstUserAuthentication: self = .completeUntilFirstUserAuthentication
        case .none: self = .none
        }
    }

    /// The class; nil if the type is none of them.
    var protectionClass: ProtectionClass? { ProtectionClass.allCases.first { FileProtectionType($0) == self } }
}

// Foundation on Linux lacks these conformances. Without them a `switch` over a class, as in Apple's documentation, does
// not compile.
extension FileProtectionType: @retroactive Equatable, @retroactive Hashable {}
