// A TPM's slot: what the TPM has sealed, and under which conditions it gives that back.

/// The value of the TLV that a TPM's slot has.
package struct SlotTPM2: Sendable, Equatable {
    /// The TLV's type.
    package static let type: UInt16 = 4
    /// Bytes of a storage key's name: the number of SHA-256 and a hash.
    package static let nameLength = 34
    /// Bytes of the secret that is sealed.
    package static let secretLength = 32
    /// The accepted lengths of both parts of the sealed object.
    package static let blobLengths = 1...512
    /// PCRs have numbers below this one.
    package static let pcrCount = 24
    private static let fixedLength = 58
    private static let pin: UInt8 = 1
    /// TPM_ALG_SHA256.
    private static let bank: UInt16 = 0x000B

    /// Whether the TPM asks for a PIN.
    package let hasPIN: Bool
    /// The PCRs whose values must be those of the sealing, one bit each.
    package let pcrs: UInt32
    /// The salt of the PIN's hash.
    package let pinSalt: InlineArray<16, UInt8>
    /// The name of the storage key under which the object is sealed.
    package let parentName: [UInt8]
    /// TPM2B_PUBLIC of the sealed object.
    package let publicPart: [UInt8]
    /// TPM2B_PRIVATE of the sealed object.
    package let privatePart: [UInt8]

    /// A value. Nil if it could not be read again.
    package init?(
        hasPIN: Bool, pcrs: UInt32, pinSalt: InlineArray<16, UInt8>, parentName: [UInt8], publicPart: [UInt8],
        privatePart: [UInt8]
    ) {
        guard pcrs >> Self.pcrCount == 0, parentName.count == Self.nameLength,
            Self.blobLengths.contains(publicPart.count), Self.blobLengths.contains(privatePart.count)
        else { return nil }
        self.hasPIN = hasPIN
        self.pcrs = pcrs
        self.pinSalt = pinSalt
        self.parentName = parentName
        self.publicPart = publicPart
        self.privatePart = privatePart
    }

    /// Parses a value. Nil if it has another form.
    init?(parsing value: [UInt8]) {
        guard value.count > Self.fixedLength, value[0] & ~Self.pin == 0, value[1] == 0,
            value.span.littleEndian(at: 2, as: UInt16.self) == Self.bank
        else { return nil }
        var offset = Self.fixedLength
        guard let publicPart = Self.blob(in: value, at: &offset), let privatePart = Self.blob(in: value, at: &offset),
            offset == value.count
        else { return nil }
        self.init(
            hasPIN: value[0] & Self.pin != 0, pcrs: value.span.littleEndian(at: 4), pinSalt: value.span.inline(at: 8),
            parentName: Array(value[24..<Self.fixedLength]), publicPart: publicPart, privatePart: privatePart)
    }

    private static func blob(in value: [UInt8], at offset: inout Int) -> [UInt8]? {
        guard value.count - offset >= 2 else { return nil }
        let length = Int(value.span.littleEndian(at: offset, as: UInt16.self))
        let start = offset + 2
        guard value.count - start >= length else { return nil }
        offset = start + length
        return Array(value[start..<offset])
    }

    /// The value's bytes.
    fileprivate var bytes: [UInt8] {
        var result = [UInt8](repeating: 0, count: Self.fixedLength) + blobs
        var bytes = result.mutableSpan
        bytes.storeLittleEndian(hasPIN ? Self.pin : 0, at: 0)
        bytes.storeLittleEndian(Self.bank, at: 2)
        bytes.storeLittleEndian(pcrs, at: 4)
        bytes.copy(pinSalt.span, to: 8)
        bytes.copy(parentName.span, to: 24)
        return result
    }

    /// The public and the private part, each after its length: the form in which the TPM helper takes them too.
    package var blobs: [UInt8] {
        [publicPart, privatePart].flatMap { part in
            [UInt8(truncatingIfNeeded: part.count), UInt8(truncatingIfNeeded: part.count >> 8)] + part
        }
    }

    /// What a TPM helper answers after sealing: the storage key's name, and both parts. Nil if it has another form.
    package init?(hasPIN: Bool, pcrs: UInt32, pinSalt: InlineArray<16, UInt8>, answer: [UInt8]) {
        var offset = Self.nameLength
        guard answer.count > offset, let publicPart = Self.blob(in: answer, at: &offset),
            let privatePart = Self.blob(in: answer, at: &offset), offset == answer.count
        else { return nil }
        self.init(
            hasPIN: hasPIN, pcrs: pcrs, pinSalt: pinSalt, parentName: Array(answer[..<Self.nameLength]),
            publicPart: publicPart, privatePart: privatePart)
    }

    /// The numbers of its PCRs.
    package var pcrNumbers: [Int] { (0..<Self.pcrCount).filter { pcrs >> $0 & 1 == 1 } }

    /// Equal in every byte.
    package static func == (left: SlotTPM2, right: SlotTPM2) -> Bool { left.bytes == right.bytes }
}

extension SlotLayout {
    /// What a TPM has sealed. Every slot of kind 4 has one; in others the value means nothing.
    package var tpm2: SlotTPM2? {
        get { kind == .tpm2 ? extensions[SlotTPM2.type].flatMap(SlotTPM2.init(parsing:)) : nil }
        set { extensions[SlotTPM2.type] = newValue?.bytes }
    }
}
