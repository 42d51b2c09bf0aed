// Classes in options, attributes and resource values.

import Testing

@testable import FileProtection

private let classes: [(type: FileProtectionType, option: Data.WritingOptions)] = [
    (.complete, .completeFileProtection), (.completeUnlessOpen, .completeFileProtectionUnlessOpen),
    (.completeUntilFirstUserAuthentication, .completeFileProtectionUntilFirstUserAuthentication),
    (FileProtectionType.none, .noFileProtection),
    (.completeWhenUserInactive, .completeFileProtectionWhenUserInactive),
]

@Suite struct OptionTests {
    @Test func classesInOptions() throws {
        for (type, option) in classes {
            #expect(try option.protectionClass == type)
            #expect(try Data.WritingOptions([option, .atomic]).protectionClass == type)
            #expect(try Data.WritingOptions([option, .withoutOverwriting]).protectionClass == type)
            #expect(type.writingOption == option)
        }
        #expect(try Data.WritingOptions().protectionClass == nil)
        #expect(try Data.WritingOptions.atomic.protectionClass == nil)
        // Two classes at once are a third number, which may be another class.
        #expect(
            try Data.WritingOptions([.completeFileProtection, .noFileProtection]).protectionClass
                == .completeUnlessOpen)
        #expect(throws: FileProtectionError.unknownClass(value: "writing option 0x70000000")) {
            try Data.WritingOptions([
                .completeFileProtectionUntilFirstUserAuthentication, .completeFileProtectionUnlessOpen,
                .noFileProtection,
            ]).protectionClass
        }
    }

    @Test func classesInAttributes() throws {
        for (type, _) in classes {
            let name = try #require(ProtectionClassName.attributeValue(of: type))
            for value: Any in [type, URLFileProtection(rawValue: type.rawValue), type.rawValue, name] {
                #expect(try FileProtectionType.of(value) == type)
                #expect(try ProtectedFileManager.type(in: [.protectionKey: value]) == type)
            }
        }
        #expect(try ProtectedFileManager.type(in: [.posixPermissions: 0o600]) == nil)
        let others: [(value: Any, told: String)] = [
            (7, "7"), ("", ""), ("Complete", "Complete"), (FileProtectionType(rawValue: "other"), "other"),
            (URLFileProtection(rawValue: "other"), "other"),
        ]
        for (value, told) in others {
            #expect(throws: FileProtectionError.unknownClass(value: told)) { try FileProtectionType.of(value) }
        }
    }

    @Test func classesOfURLs() {
        let all: [URLFileProtection] = [
            .complete, .completeUnlessOpen, .completeUntilFirstUserAuthentication, .none, .completeWhenUserInactive,
        ]
        #expect(FileProtectionType.completeWhenUserInactive.rawValue == "NSFileProtectionCompleteWhenUserInactive")
        #expect(Data.WritingOptions.completeFileProtectionWhenUserInactive.rawValue == 0x5000_0000)
        #expect(all.map(\.rawValue) == classes.map(\.type.rawValue))
        var values = URLResourceValues()
        #expect(values.fileProtection == nil)
        values.fileProtection = .complete
        values.isExcludedFromBackup = true
        #expect(values.isExcludedFromBackup == true)
        #expect(values.allValues[.fileProtectionKey] as? URLFileProtection == .complete)
    }
}
