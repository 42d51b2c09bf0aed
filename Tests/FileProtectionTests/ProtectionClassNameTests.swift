// Tests the names of the classes, and the errors of a place without protection.

import FileProtection
import Testing

@Test func namesOfTheClasses() {
    let classes: [FileProtectionType] = [
        .complete, .completeUnlessOpen, .completeWhenUserInactive, .completeUntilFirstUserAuthentication,
        FileProtectionType.none,
    ]
    for type in classes {
        let value = ProtectionClassName.attributeValue(of: type)
        #expect(value.flatMap(ProtectionClassName.type(ofAttributeValue:))?.rawValue == type.rawValue)
        #expect(ProtectionClassName.type(ofAttributeValue: type.rawValue)?.rawValue == type.rawValue)
        #expect(type.rawValue.hasPrefix("NSFileProtection"))
    }
    #expect(ProtectionClassName.attributeValue(of: FileProtectionType(rawValue: "other")) == nil)
    #expect(ProtectionClassName.type(ofAttributeValue: "") == nil)
}

@Test func aPlaceWithoutProtection() throws {
    #expect(!FileProtection.isSupported(at: URL(fileURLWithPath: "/proc/self/status")))
    #expect(!FileProtection.isSupported(at: URL(fileURLWithPath: "/no/such/place")))
    #expect(try ProtectionAttribute.get("/proc/self/status") == nil)
    #expect(throws: ProtectionSystemError.self) { try ProtectionAttribute.get("/no/such/place") }
}
