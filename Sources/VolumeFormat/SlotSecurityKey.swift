// A FIDO2 slot: which credential of a security key opens it, and what the key is asked for.

/// The value of the TLV that a slot of a security key has. None of it is secret.
package struct SlotSecurityKey: Sendable, Equatable {
    /// The TLV's type.
    package static let type: UInt16 = 5
    /// The relying party of every credential.
    package static let relyingParty = "protectfs"
    /// Bytes of the salt, and of the secret that the key gives for it.
    package static let saltLength = 32
    /// The lengths of a credential ID that CTAP allows.
    package static let credentialLengths = 1...1023
    private static let pinFlag: UInt8 = 1

    /// Whether the key verifies its owner by PIN. It has another secret if it does not.
    package let usesPIN: Bool
    /// Random.
    package let salt: InlineArray<32, UInt8>
    /// The credential's ID, as the key gave it.
    package let credential: [UInt8]

    /// A value. Nil if the credential's ID has a length that CTAP does not allow.
    package init?(usesPIN: Bool, salt: InlineArray<32, UInt8>, credential: [UInt8]) {
        guard Self.credentialLengths.contains(credential.count) else { return nil }
        self.usesPIN = usesPIN
        self.salt = salt
        self.credential = credential
    }

    /// Parses a value. Nil if it has another form.
    init?(parsing value: [UInt8]) {
        let start = 1 + Self.saltLength
        guard value.count > start, value[0] & ~Self.pinFlag == 0 else { return nil }
        self.init(
            usesPIN: value[0] & Self.pinFlag != 0, salt: value.span.inline(at: 1), credential: Array(value[start...]))
    }

    /// The value's bytes.
    fileprivate var bytes: [UInt8] { [usesPIN ? Self.pinFlag : 0] + salt.span.copiedBytes() + credential }

    /// Whether both values have the same bytes.
    package static func == (one: SlotSecurityKey, other: SlotSecurityKey) -> Bool { one.bytes == other.bytes }
}

extension SlotLayout {
    /// The security key. Every slot of kind 5 has one; in others the value means nothing.
    package var securityKey: SlotSecurityKey? {
        get {
            kind == .securityKey ? extensions[SlotSecurityKey.type].flatMap(SlotSecurityKey.init(parsing:)) : nil
        }
        set { extensions[SlotSecurityKey.type] = newValue?.bytes }
    }
}
