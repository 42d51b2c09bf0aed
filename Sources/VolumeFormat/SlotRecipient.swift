// A recipient's slot: whose public key it is for, and the slot's key material, encrypted to that key.

/// The value of the TLV that a recipient's slot has.
package struct SlotRecipient: Sendable {
    /// The TLV's type.
    package static let type: UInt16 = 3
    /// Bytes of the encrypted material: HPKE's encapsulated key, 32 bytes of material, and the tag.
    package static let sealedLength = 80
    private static let keyLength = RecipientText.keyLength

    /// The X25519 public key.
    package let publicKey: InlineArray<32, UInt8>
    /// The key material, encrypted to it.
    package let sealed: [UInt8]

    /// A value.
    package init(publicKey: InlineArray<32, UInt8>, sealed: [UInt8]) {
        precondition(sealed.count == Self.sealedLength)
        self.publicKey = publicKey
        self.sealed = sealed
    }

    /// Parses a value. Nil if it has another length.
    init?(parsing value: [UInt8]) {
        guard value.count == Self.keyLength + Self.sealedLength else { return nil }
        publicKey = value.span.inline(at: 0)
        sealed = Array(value[Self.keyLength...])
    }

    /// The value's bytes.
    fileprivate var bytes: [UInt8] { publicKey.span.copiedBytes() + sealed }
}

extension SlotLayout {
    /// The TLVs that this program knows.
    static let knownTypes = SlotLabel.knownTypes + [SlotRecipient.type, SlotTPM2.type, SlotSecurityKey.type]

    /// The recipient. Every slot of kind 6 has one; in others the value means nothing.
    package var recipient: SlotRecipient? {
        get { kind == .recipient ? extensions[SlotRecipient.type].flatMap(SlotRecipient.init(parsing:)) : nil }
        set { extensions[SlotRecipient.type] = newValue?.bytes }
    }
}
