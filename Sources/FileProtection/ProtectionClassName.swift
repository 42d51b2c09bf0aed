// Foundation's names of the four classes, and the mount's.

import VolumeFormat

/// Maps `FileProtectionType` to the values of the attribute `user.protection` and back.
public enum ProtectionClassName {
    /// The attribute's value for a class; nil for a raw value that names none of the four.
    public static func attributeValue(of type: FileProtectionType) -> String? {
        type.protectionClass?.canonicalName
    }

    /// The class that an attribute's value names (canonical names and `NSFileProtection…` raw values); nil for others.
    public static func type(ofAttributeValue value: String) -> FileProtectionType? {
        FileProtectionType.known.first { $0.protectionClass?.canonicalName == value || $0.rawValue == value }
    }
}

extension FileProtectionType {
    /// The four classes by Foundation's names.
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

    /// The class; nil for a raw value that names none of the four.
    var protectionClass: ProtectionClass? { ProtectionClass.allCases.first { FileProtectionType($0) == self } }
}

// Foundation on Linux leaves it out, and without it the documents' `switch` over a class does not compile.
extension FileProtectionType: @retroactive Equatable, @retroactive Hashable {}
