// The tests of the wrappers while the volume is unlocked.

// Wrappers for an iPhone are written so.
// swift-format-ignore-file: NeverForceUnwrap

import FileProtection
import Secrets

func testPasswordBox() {
    let box = PasswordBox(service: "Mail")
    check("nothing at first", box["user"] == nil)
    box["user"] = "one"
    check("subscript", box["user"] == "one", box["user"])
    box["user"] = "two"
    check("changed", box["user"] == "two", box["user"])
    check("as data", box[data: "user"] == Data("two".utf8))
    check("contains", (try? box.contains("user")) == true && (try? box.contains("nobody")) == false)
    check("contains, without asking", (try? box.contains("user", withoutAsking: true)) == true)
    check("another service has its own", PasswordBox(service: "News")["user"] == nil)

    let started = Date()
    try? box.set("three", "other")
    let properties = try? box.properties("other")
    check("kind", properties?.kind == String(kSecClassGenericPassword), properties?.kind)
    check("data", properties?.data == Data("three".utf8))
    check("no reference to a password", properties?.reference == nil)
    check("persistent reference", properties?.persistentReference != nil)
    check("accessible", properties?.accessible == String(kSecAttrAccessibleAfterFirstUnlock), properties?.accessible)
    check("access control", properties?.accessControl != nil)
    check("group", properties?.accessGroup == SecretsMount.accessGroup, properties?.accessGroup)
    check("not synchronizable", properties?.synchronizable == false, properties?.synchronizable)
    check("created", abs(properties?.created?.timeIntervalSince(started) ?? 1000) < 600, properties?.created)
    check("modified", properties?.created == properties?.modified, properties?.modified)
    check(
        "no label, comment, description",
        properties?.label == nil && properties?.comment == nil && properties?.description == nil)
    check("no creator, type", properties?.creator == nil && properties?.type == nil)
    check("account, service", properties?.account == "other" && properties?.service == "Mail")
    check("by its key", properties?[kSecAttrAccount as String] as? String == "other")
    try? box.set("four", "other")
    let later = try? box.properties("other")
    check("created stays", later?.created == properties?.created)
    check("modified moves", (later?.modified ?? .distantPast) > (properties?.modified ?? .distantFuture))

    check("keys", box.allKeys().sorted() == ["other", "user"], box.allKeys())
    let items = box.allItems(withData: true)
    check(
        "items with data",
        Set(items.compactMap { $0[kSecValueData as String] as? Data }) == [Data("two".utf8), Data("four".utf8)])
    check("items without data", box.allItems(withData: false).allSatisfy { $0[kSecValueData as String] == nil })
    check("not text", code { _ = try bytes(box) } == Int(errSecDecode))
    box["user"] = nil
    check("removed", box["user"] == nil)
    check("removed again", code { try box.remove("user") } == 0)
    check("all removed", code { try box.removeAll() } == 0 && box.allKeys().isEmpty)
    check("all removed again", code { try box.removeAll() } == 0)
}

private func bytes(_ box: PasswordBox) throws -> String? {
    try box.set(Data([0xFF, 0xFE]), "bytes")
    return try box.text("bytes")
}

func testWeb() {
    let url = URL(string: "https://example.org:8443")!
    for kind in WebProtocol.allCases {
        check(
            "protocol \(kind) comes back", WebProtocol(word: kind.word) == kind && kind.word.utf8.count == 4, kind.word)
        PasswordBox(server: url, kind)["user"] = "\(kind)"
    }
    for kind in WebAuthentication.allCases where kind != .standard {
        PasswordBox(server: url, .https, kind)["user"] = "\(kind)"
    }
    for kind in WebProtocol.allCases {
        let box = PasswordBox(server: url, kind)
        check("protocol \(kind)", box["user"] == "\(kind)", box["user"])
    }
    for kind in WebAuthentication.allCases where kind != .standard {
        let box = PasswordBox(server: url, .https, kind)
        check("authentication \(kind)", box["user"] == "\(kind)", box["user"])
    }
    let keys = PasswordBox.allKeys(.internet)
    check(
        "one item for each", keys.count == WebProtocol.allCases.count + WebAuthentication.allCases.count - 1, keys.count
    )
    check("all of one server", keys.allSatisfy { $0 == ("example.org", "user") })
    let box = PasswordBox(server: url, .smtp, .ntlm)
    box["user"] = "mail"
    let properties = try? box.properties("user")
    check("server, port", properties?.server == "example.org" && properties?.port == 8443, properties?.port)
    check("protocol", properties?.webProtocol == String(kSecAttrProtocolSMTP), properties?.webProtocol)
    check("authentication", properties?.authentication == String(kSecAttrAuthenticationTypeNTLM))
    check("empty domain and path", properties?.securityDomain == "" && properties?.path == "", properties?.path)
    let other = PasswordBox(server: URL(string: "https://example.org:443")!, .https)
    other["user"] = "443"
    check("another port is another item", PasswordBox(server: url, .https)["user"] == "https" && other["user"] == "443")
    let plain = PasswordBox(server: URL(string: "https://example.net")!, .https)
    plain["user"] = "no port"
    check("no port is port 0", (try? plain.properties("user"))??.port == 0)
    try? other.removeAll()
    for kind in WebProtocol.allCases { try? PasswordBox(server: url, kind).removeAll() }
    for kind in WebAuthentication.allCases { try? PasswordBox(server: url, .https, kind).removeAll() }
    try? plain.removeAll()
    try? box.removeAll()
    check("none left", PasswordBox.allKeys(.internet).isEmpty, PasswordBox.allKeys(.internet))
}

func testSettings() {
    let box = PasswordBox(service: "Settings")
    for availability in Availability.allCases {
        let with = box.with { $0.availability = availability }
        with["key"] = "\(availability)"
        let properties = try? with.properties("key")
        check(
            "accessibility \(availability)", properties?.accessible == String(availability.rawValue),
            properties?.accessible)
        check("accessibility \(availability), text", box["key"] == "\(availability)", box["key"])
    }
    let named = box.with {
        $0.label = "Label"
        $0.comment = "Comment"
        $0.more = [
            kSecAttrDescription as String: "Description", kSecAttrCreator as String: 0x70_66_73_31,
            kSecAttrType as String: NSNumber(value: 7), kSecAttrIsInvisible as String: true,
            kSecAttrIsNegative as String: kCFBooleanFalse!, kSecAttrGeneric as String: Data([1, 2]),
        ]
    }
    for round in ["added", "changed"] {
        named["rich"] = round
        let rich = try? named.properties("rich")
        check("\(round): label, comment", rich?.label == "Label" && rich?.comment == "Comment", rich?.label)
        check("\(round): description", rich?.description == "Description", rich?.description)
        check("\(round): creator, type", rich?.creator == 0x70_66_73_31 && rich?.type == 7, rich?.type)
        check("\(round): invisible, negative", rich?.isInvisible == true && rich?.isNegative == false, rich?.isNegative)
        check("\(round): generic", rich?.generic == Data([1, 2]), rich?.generic)
        check("\(round): text", named["rich"] == round)
    }
    try? box.removeAll()

    let cloud = box.with { $0.isSynchronizable = true }
    cloud["key"] = "cloud"
    check("synchronizable", (try? cloud.properties("key"))??.synchronizable == true)
    check("found by any", box["key"] == "cloud", box["key"])
    check("not found as another", (try? box.data("key", anySynchronizable: false)) == .some(nil))
    check("found as itself", (try? cloud.data("key", anySynchronizable: false)) == Data("cloud".utf8))
    box["key"] = "here"
    check("set makes it local", (try? box.properties("key"))??.synchronizable == false)
    check("in place of the other", box.allKeys() == ["key"], box.allKeys())
    let bound = cloud.with { $0.availability = .whenUnlockedHere }
    check("with this device only", code { try bound.set("x", "new") } == 0)
    check(
        "as it was said",
        (try? bound.properties("new"))??.accessible == String(kSecAttrAccessibleWhenUnlockedThisDeviceOnly))
    bound["new"] = nil

    let first = PasswordBox(service: "Settings", accessGroup: "TEAM.one")
    let second = PasswordBox(service: "Settings", accessGroup: "TEAM.two")
    first["shared"] = "1"
    second["shared"] = "2"
    check("groups", first["shared"] == "1" && second["shared"] == "2", second["shared"])
    check("a group's keys", first.allKeys() == ["shared"], first.allKeys())
    check("without a group, all", Set(box.allKeys()) == ["key", "shared"] && box.allKeys().count == 3, box.allKeys())

    let asking = box.with {
        $0.availability = .whenPasscodeSet
        $0.flags = .userPresence
        $0.prompt = "May I?"
        $0.context = LAContext()
    }
    check("an item that needs a person is refused", code { try asking.set("x", "person") } == Int(errSecUnimplemented))
    check("and is not there", box["person"] == nil)
    check("no flags are no refusal", code { try asking.with { $0.flags = [] }.set("x", "person") } == 0)
    let unknown = code { try asking.with { $0.flags = SecAccessControlCreateFlags(rawValue: 1 << 8) }.set("x", "y") }
    check("an unknown flag is an error", unknown == Int(errSecParam), unknown)
    check("text of an error", PasswordBox.failure(errSecDuplicateItem).localizedDescription.contains("exists"))
    check("text of an unknown error", PasswordBox.failure(1).localizedDescription == "OSStatus 1")
    try? box.removeAll()
}

func testLocker() {
    let locker = Locker("test", .whenUnlocked)
    check("locker: nothing", failure { () throws(LockerError) in _ = try locker.object("key") } == .itemNotFound)
    check("locker: no keys", (try? locker.allKeys()) == [])
    check("locker: set", failure { () throws(LockerError) in try locker.set(Data("1".utf8), "key") } == nil)
    check("locker: get", (try? locker.object("key")) == Data("1".utf8))
    try? locker.set(Data("2".utf8), "key")
    check("locker: changed", (try? locker.object("key")) == Data("2".utf8))
    check("locker: contains", locker.contains("key") == errSecSuccess && locker.contains("no") == errSecItemNotFound)
    check("locker: can be used", locker.canAccess())
    check("locker: again", locker.canAccess())
    check("locker: one key", (try? locker.allKeys()) == ["key"], try? locker.allKeys())
    try? locker.set(Data("3".utf8), "other")
    check("locker: two keys", (try? locker.allKeys()) == ["key", "other"])
    check("locker: empty", failure { () throws(LockerError) in try locker.set(Data(), "key") } == .invalidQuery)
    let other = Locker("test", .afterFirstUnlock)
    check("another accessibility is another locker", (try? other.allKeys()) == [])
    let cloud = Locker("test", .whenUnlocked, synchronizable: true)
    try? cloud.set(Data("cloud".utf8), "key")
    check("a synchronizable locker is another", (try? locker.object("key")) == Data("2".utf8))
    check("and has its own", (try? cloud.object("key")) == Data("cloud".utf8))
    try? locker.remove("key")
    check("locker: removed", locker.contains("key") == errSecItemNotFound && cloud.contains("key") == errSecSuccess)
    check("locker: removed again", failure { () throws(LockerError) in try locker.remove("key") } == nil)
    try? locker.removeAll()
    try? cloud.removeAll()
    check("locker: all removed", (try? locker.allKeys()) == [] && (try? cloud.allKeys()) == [])

    check("prefix of the group", Locker.groupPrefix() == "protectfs", Locker.groupPrefix())
    let group = "\(Locker.groupPrefix() ?? "").shared"
    let shared = Locker(sharedGroup: group, .afterFirstUnlock)
    try? shared.set(Data("s".utf8), "key")
    check("shared", (try? Locker(sharedGroup: group, .afterFirstUnlock).object("key")) == Data("s".utf8))
    check("another group is empty", (try? Locker(sharedGroup: group + "2", .afterFirstUnlock).allKeys()) == [])
    try? shared.removeAll()

    for flags: SecAccessControlCreateFlags in [
        .userPresence, .biometryAny, .biometryCurrentSet, .devicePasscode, .applicationPassword, .privateKeyUsage,
        [.biometryAny, .or, .devicePasscode],
    ] {
        let enclave = Locker("test", needing: flags)
        let refused = failure { () throws(LockerError) in try enclave?.set(Data("x".utf8), "key") }
        check("enclave \(flags.rawValue): refused", enclave != nil && refused == .other(errSecUnimplemented), refused)
        check("enclave \(flags.rawValue): empty", (try? enclave?.allKeys()) == [] && enclave?.canAccess() == false)
    }
}

func testMigration() {
    let box = PasswordBox(service: "Old")
    for number in 0..<20 { box["key \(number)"] = "value \(number)" }
    let locker = Locker("new", .whenUnlocked)
    let query: Locker.Query = [
        kSecClass as String: kSecClassGenericPassword as String, kSecAttrService as String: "Old",
    ]
    check("migrated", failure { () throws(LockerError) in try locker.migrate(query, removing: false) } == nil)
    check("all keys", (try? locker.allKeys())?.count == 20, try? locker.allKeys())
    check("values", (0..<20).allSatisfy { (try? locker.object("key \($0)")) == Data("value \($0)".utf8) })
    check("the old ones stay", box.allKeys().count == 20)
    let again = failure { () throws(LockerError) in try locker.migrate(query, removing: true) }
    check("not over existing keys", again == .keyNotUnique && box.allKeys().count == 20, again)
    try? locker.removeAll()
    check(
        "migrated and removed", failure { () throws(LockerError) in try locker.migrate(query, removing: true) } == nil)
    check("the old ones are gone", box.allKeys().isEmpty && (try? locker.allKeys())?.count == 20)
    let nothing = failure { () throws(LockerError) in try locker.migrate(query, removing: true) }
    check("nothing to migrate", nothing == .itemNotFound, nothing)
    let without = failure { () throws(LockerError) in try locker.migrate([:], removing: true) }
    check("no kind", without == .invalidQuery, without)
    // To another accessibility, from one locker to another.
    let background = Locker("new", .afterFirstUnlock)
    check(
        "changed accessibility",
        failure { () throws(LockerError) in try background.migrate(locker.base, removing: true) } == nil)
    check("all there", (try? background.allKeys())?.count == 20 && (try? locker.allKeys()) == [])
    try? background.removeAll()
}

func testSmallWrappers() {
    let quick = QuickBox()
    quick.accessGroup = "TEAM.quick"
    check("quick: set", quick.set("1", "key") && quick.set("2", "key"), quick.lastResult)
    check("quick: get", quick.data("key") == Data("2".utf8))
    check("quick: reference", quick.data("key", asReference: true).map { $0 != Data("2".utf8) } == true)
    quick.set("3", "other", kSecAttrAccessibleAfterFirstUnlock)
    check("quick: keys", Set(quick.allKeys) == ["key", "other"], quick.allKeys)
    quick.isSynchronizable = true
    quick.set("4", "key")
    quick.isSynchronizable = false
    check(
        "quick: a synchronizable one took its place", quick.data("key") == nil && quick.lastResult == errSecItemNotFound
    )
    quick.isSynchronizable = true
    check("quick: and is found as any", quick.data("key") == Data("4".utf8))
    check("quick: delete", quick.delete("key") && !quick.delete("key") && quick.lastResult == errSecItemNotFound)
    check("quick: clear", quick.clear() && quick.allKeys.isEmpty && !quick.clear())

    let archive = ArchiveBox(service: "Archive")
    check("archive: set", archive.set(42, "answer") && archive.set(43, "answer"))
    check("archive: get", archive.number("answer") == 43, archive.number("answer"))
    check("archive: keys", archive.allKeys() == ["answer"], archive.allKeys())
    check("archive: accessibility", archive.accessibility("answer") == .whenUnlocked)
    check("archive: text is another account", PasswordBox(service: "Archive")["answer"] == nil)

    let injected = InjectedBox(service: "Injected")
    check("injected: set", injected.set("1", "key") == errSecSuccess && injected.set("2", "key") == errSecSuccess)
    check("injected: get", injected.get("key") == (errSecSuccess, Data("2".utf8)))
    check(
        "injected: person", InjectedBox(service: "Injected", flags: .userPresence).set("1", "p") == errSecUnimplemented)
    check(
        "injected: another function",
        InjectedBox(service: "", retrieve: { _, _ in errSecAuthFailed }).get("key").0 == errSecAuthFailed)
    check("injected: delete", injected.delete("key") == errSecSuccess && injected.delete("key") == errSecItemNotFound)
    for kind in [
        kSecClassGenericPassword, kSecClassInternetPassword, kSecClassCertificate, kSecClassKey, kSecClassIdentity,
    ] {
        SecItemDelete([kSecClass: kind, kSecAttrSynchronizable: kSecAttrSynchronizableAny] as CFDictionary)
    }
    check("wiped", PasswordBox.allKeys(.generic).isEmpty && PasswordBox.allKeys(.internet).isEmpty)
}

/// A program that would ask before it shows a password finds out that it cannot.
func testPolicies() {
    let context = LAContext()
    var error: NSError?
    check("no passcode", !context.canEvaluatePolicy(.deviceOwnerAuthentication, error: &error))
    check("and why", error?.code == LAError.passcodeNotSet.rawValue && error?.domain == LAError.errorDomain, error)
    check("no finger", !context.canEvaluatePolicy(.deviceOwnerAuthenticationWithBiometrics, error: nil))
    let answered = DispatchSemaphore(value: 0)
    context.evaluatePolicy(.deviceOwnerAuthenticationWithBiometrics, localizedReason: "Show it") { isKnown, error in
        check("nobody is known", !isKnown && (error as? LAError)?.code == .biometryNotAvailable, error)
        answered.signal()
    }
    answered.wait()
    context.invalidate()
    _ = context.canEvaluatePolicy(.deviceOwnerAuthentication, error: &error)
    check("an ended context", error?.code == LAError.Code.invalidContext.rawValue, error)
}

func testRandom() {
    var first = [UInt8](repeating: 0, count: 64)
    var second = Data(count: 64)
    check("random bytes", SecRandomCopyBytes(kSecRandomDefault, first.count, &first) == errSecSuccess)
    let status = second.withUnsafeMutableBytes { SecRandomCopyBytes(kSecRandomDefault, 64, $0.baseAddress!) }
    check("random data", status == errSecSuccess && Data(first) != second && Set(first).count > 20, first)
    check("no bytes", SecRandomCopyBytes(kSecRandomDefault, 0, &first) == errSecSuccess)
    check("a negative count", SecRandomCopyBytes(kSecRandomDefault, -1, &first) == errSecParam)
    var part = [UInt8](repeating: 7, count: 16)
    _ = SecRandomCopyBytes(kSecRandomDefault, 8, &part)
    check("only as many as said", part[8...].allSatisfy { $0 == 7 }, part)
}
