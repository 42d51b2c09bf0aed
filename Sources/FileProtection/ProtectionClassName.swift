// Converts between Foundation's names of the four classes and those of the mount.

import VolumeFormat

/// Converts `FileProtectionType` to values of the attribute `user.protection` and back.
public enum ProtectionClassName {
    /// The attribute's value for a class; nil if the type is none of the four classes.
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
    /// Foundation's names of the four classes.
    static let known = ProtectionClass.allCases.map(FileProtectionType.init)

    /// Foundation's name of a class.
    init(_ protectionClass: ProtectionClass) {
        switch protectionClass {
        case .complete: self = .complete
        case .completeUnlessOpen: self = .completeUnlessOpen
        case .completeUntilFirstUserAuthentication: self = .completeUntilFirstUserAuthentication
        case .none: self = .none
        }
    }

    /// The class; nil if the type is none of the four.
    var protectionClass: ProtectionClass? { ProtectionClass.allCases.first { FileProtectionType($0) == self } }
}

// Foundation on Linux lacks these conformances. Without them a `switch` over a class, as in Apple's documentation, does
// not compile.
extension FileProtectionType: @retroactive Equatable, @retroactive Hashable {}
