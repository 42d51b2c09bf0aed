// Foundation's names of the four classes, and the mount's.

/// Maps `FileProtectionType` to the values of the attribute `user.protection` and back.
public enum ProtectionClassName {
    private static let table: [(type: FileProtectionType, value: String)] = [
        (.complete, "complete"),
        (.completeUnlessOpen, "completeUnlessOpen"),
        (.completeUntilFirstUserAuthentication, "completeUntilFirstUserAuthentication"),
        (FileProtectionType.none, "none"),
    ]

    /// The attribute's value for a class; nil for a raw value that names none of the four.
    public static func attributeValue(of type: FileProtectionType) -> String? {
        table.first { $0.type == type }?.value
    }

    /// The class that an attribute's value names (canonical names and `NSFileProtection…` raw values); nil for others.
    public static func type(ofAttributeValue value: String) -> FileProtectionType? {
        table.first { $0.value == value || $0.type.rawValue == value }?.type
    }
}

// Foundation on Linux leaves it out, and without it the documents' `switch` over a class does not compile.
extension FileProtectionType: @retroactive Equatable, @retroactive Hashable {}
