// The protection classes, their numbers on disk and their names in `user.protection`.

/// A file's protection class. The raw value is its number on disk. The model is iOS Data Protection.
package enum ProtectionClass: UInt8, CaseIterable, Sendable, Hashable {
    /// Class A: usable only while the volume is unlocked.
    case complete = 1
    /// Class B: can be opened only while unlocked. An open handle keeps working, and new files can be created while locked.
    case completeUnlessOpen = 2
    /// Class 7: usable from the first unlock, through a lock too, until its time after the lock has run out. Then it is closed
    /// like class A, until the next unlock.
    case completeWhenUserInactive = 7
    /// Class C: usable from the first unlock until unmount. The default.
    case completeUntilFirstUserAuthentication = 3
    /// Class D: always usable. Still encrypted, under the device key.
    case none = 4

    /// The default of a volume until its root gets another one.
    package static let volumeDefault = ProtectionClass.completeUntilFirstUserAuthentication

    /// The value of `user.protection` that takes a directory's default away.
    package static let inherit: StaticString = "inherit"

    /// What a value of `user.protection` requests.
    package enum Request: Hashable, Sendable {
        /// A class.
        case known(ProtectionClass)
        /// No class: takes a directory's default away.
        case inherit
        /// Not a class: EINVAL.
        case invalid
    }

    /// Parses a value of `user.protection` exactly. A trailing newline or NUL is invalid.
    package static func request(_ value: Span<UInt8>) -> Request {
        for candidate in allCases where candidate.accepts(value) { return .known(candidate) }
        if value.equals(inherit) { return .inherit }
        return .invalid
    }

    /// The class that a value of `user.protection` names. Nil for anything else.
    package init?(attributeValue value: Span<UInt8>) {
        guard case .known(let known) = Self.request(value) else { return nil }
        self = known
    }

    /// The class that `text` names, in any of the accepted spellings.
    package init?(name text: String) {
        let bytes = Array(text.utf8)
        self.init(attributeValue: bytes.span)
    }

    /// The value that `getfattr` shows.
    package var canonicalName: String { "\(canonical)" }

    /// The name in commands and tables, such as unless-open.
    package var shortName: String { "\(short)" }

    /// The letter, upper case. Class 7 has its number instead.
    package var letter: Character {
        switch self {
        case .complete: "A"
        case .completeUnlessOpen: "B"
        case .completeWhenUserInactive: "7"
        case .completeUntilFirstUserAuthentication: "C"
        case .none: "D"
        }
    }

    /// The place in the table of strength, A > B > 7 > C > D; 0 is the strongest. Numbers on disk have no order.
    private var rank: Int {
        switch self {
        case .complete: 0
        case .completeUnlessOpen: 1
        case .completeWhenUserInactive: 2
        case .completeUntilFirstUserAuthentication: 3
        case .none: 4
        }
    }

    /// Whether this class is stronger than `other`.
    package func isStronger(than other: ProtectionClass) -> Bool {
        rank < other.rank
    }

    /// Whether open handles are cut off when the class closes, and its key and its plaintext leave memory: A at a lock, 7 when
    /// its time after a lock has run out.
    package var cutsOffHandles: Bool { self == .complete || self == .completeWhenUserInactive }

    /// The canonical name as static bytes.
    package var canonical: StaticString {
        switch self {
        case .complete: "complete"
        case .completeUnlessOpen: "completeUnlessOpen"
        case .completeWhenUserInactive: "completeWhenUserInactive"
        case .completeUntilFirstUserAuthentication: "completeUntilFirstUserAuthentication"
        case .none: "none"
        }
    }

    private var short: StaticString {
        switch self {
        case .complete: "complete"
        case .completeUnlessOpen: "unless-open"
        case .completeWhenUserInactive: "when-inactive"
        case .completeUntilFirstUserAuthentication: "until-first-unlock"
        case .none: "none"
        }
    }

    /// The raw value of iOS.
    package var apple: StaticString {
        switch self {
        case .complete: "NSFileProtectionComplete"
        case .completeUnlessOpen: "NSFileProtectionCompleteUnlessOpen"
        case .completeWhenUserInactive: "NSFileProtectionCompleteWhenUserInactive"
        case .completeUntilFirstUserAuthentication: "NSFileProtectionCompleteUntilFirstUserAuthentication"
        case .none: "NSFileProtectionNone"
        }
    }

    private func accepts(_ value: Span<UInt8>) -> Bool {
        if value.count == 1 {
            // A digit has no lower case.
            if self == .completeWhenUserInactive { return value[0] == 0x37 }
            let upper: UInt8 = 0x40 + rawValue
            return value[0] == upper || value[0] == upper + 0x20
        }
        return value.equals(canonical) || value.equals(short) || value.equals(apple)
    }
}

extension Span<UInt8> {
    /// Whether the bytes are exactly the ASCII text `text`.
    package func equals(_ text: StaticString) -> Bool {
        count == text.utf8CodeUnitCount && hasText(text)
    }
}
