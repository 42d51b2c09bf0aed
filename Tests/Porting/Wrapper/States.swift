// The tests of the wrappers while the volume is locked, before the first unlock, and after it.

import FileProtection
import Secrets

private func box(_ availability: Availability) -> PasswordBox {
    PasswordBox(service: "State \(availability)").with {
        $0.availability = availability
        $0.comment = "Comment"
    }
}

/// What the other states find.
func fill() {
    for availability in Availability.allCases {
        box(availability)["key"] = "\(availability)"
        try? Locker("state", availability).set(Data("\(availability)".utf8), "key")
        check("filled \(availability)", box(availability)["key"] == "\(availability)")
    }
}

/// While `sample` is closed and only `open` are open.
func testClosed(_ sample: Availability, open: [Availability]) {
    for availability in Availability.allCases {
        let isOpen = open.contains(availability)
        let box = box(availability)
        let locker = Locker("state", availability)
        let name = "\(availability)"
        check("\(name): read", code { _ = try box.data("key") } == (isOpen ? 0 : closed))
        check("\(name): subscript", box["key"] == (isOpen ? name : nil), box["key"])
        check("\(name): change", code { try box.set(name, "key") } == (isOpen ? 0 : closed))
        check("\(name): add", code { try box.set(name, "new") } == (isOpen ? 0 : closed))
        check("\(name): contains", (try? box.contains("key")) == true && (try? box.contains("nobody")) == false)
        check("\(name): keys", box.allKeys().sorted() == (isOpen ? ["key", "new"] : ["key"]), box.allKeys())
        check("\(name): with data", box.allItems(withData: true).count == (isOpen ? 2 : 0))
        check(
            "\(name): attributes",
            box.allItems(withData: false).first?[kSecAttrComment as String] as? String == "Comment")
        check("\(name): remove", code { try box.remove("new") } == 0 && (try? box.contains("new")) == false)
        let refused = failure { () throws(LockerError) in _ = try locker.object("key") }
        check("\(name): locker", refused == (isOpen ? nil : .couldNotAccess), refused)
        check("\(name): locker can be used", locker.canAccess() == isOpen)
        check("\(name): locker's keys", (try? locker.allKeys()) == ["key"], try? locker.allKeys())
        let moved = failure { () throws(LockerError) in
            try Locker("moved", .always).migrate(locker.base, removing: false)
        }
        check("\(name): migrate", moved == (isOpen ? nil : .couldNotAccess), moved)
        check("\(name): nothing of a failed one", (try? Locker("moved", .always).allKeys()) == (isOpen ? ["key"] : []))
        try? Locker("moved", .always).removeAll()
        let change = [kSecAttrAccessible: kSecAttrAccessibleAlways] as CFDictionary
        let query = [kSecClass: kSecClassGenericPassword, kSecAttrService: "State \(availability)"] as CFDictionary
        let weaker = SecItemUpdate(query, change)
        check("\(name): weaker", weaker == (isOpen ? errSecSuccess : errSecInteractionNotAllowed), weaker)
        let stronger = SecItemUpdate(query, [kSecAttrAccessible: availability.rawValue] as CFDictionary)
        check("\(name): and back", stronger == (isOpen ? errSecSuccess : errSecInteractionNotAllowed), stronger)
    }
    check("random bytes", testBytes())
    // A search for all data meets a closed item.
    var result: CFTypeRef?
    let status = SecItemCopyMatching(
        [kSecClass: kSecClassGenericPassword, kSecReturnData: true, kSecMatchLimit: kSecMatchLimitAll] as CFDictionary,
        &result)
    check("all data", status == errSecInteractionNotAllowed && result == nil, status)
    check("a closed one is not removed in passing", (try? box(sample).contains("key")) == true)
}

private func testBytes() -> Bool {
    var bytes = [UInt8](repeating: 0, count: 32)
    return SecRandomCopyBytes(kSecRandomDefault, 32, &bytes) == errSecSuccess && Set(bytes).count > 8
}

/// After the unlock everything is as it was filled.
func testAfter() {
    for availability in Availability.allCases {
        check("\(availability): text", box(availability)["key"] == "\(availability)", box(availability)["key"])
        let properties = try? box(availability).properties("key")
        check(
            "\(availability): accessible", properties?.accessible == String(availability.rawValue),
            properties?.accessible)
        check("\(availability): comment", properties?.comment == "Comment")
        let locker = Locker("state", availability)
        check(
            "\(availability): locker", (try? locker.object("key")) == Data("\(availability)".utf8) && locker.canAccess()
        )
        try? box(availability).removeAll()
        try? locker.removeAll()
    }
    check("nothing is left", PasswordBox.allKeys(.generic).isEmpty, PasswordBox.allKeys(.generic))
}
