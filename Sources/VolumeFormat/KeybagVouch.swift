// The TLV of a keybag by which the device key vouches for the public key.

/// A signature over class B's public key and the generations, and signatures by which former device keys name their successors.
package struct KeybagVouch: Sendable {
    /// A former device's voucher: it has signed the next one.
    package struct Former: Sendable {
        /// Its Ed25519 public key.
        package var voucher: InlineArray<32, UInt8>
        /// Its signature over the next voucher.
        package var signature: [UInt8]

        /// A former voucher.
        package init(voucher: InlineArray<32, UInt8>, signature: [UInt8]) {
            self.voucher = voucher
            self.signature = signature
        }
    }

    /// Bytes of a voucher and a signature.
    package static let entryLength = 32 + 64
    /// The largest number of former vouchers.
    package static let maximumFormer = 8

    /// The Ed25519 public key of the present device key.
    package var voucher: InlineArray<32, UInt8>
    /// Its signature over `statement`.
    package var signature: [UInt8]
    /// The former ones, the oldest first. The last one has signed `voucher`.
    package var former: [Former]

    /// A vouch.
    package init(voucher: InlineArray<32, UInt8>, signature: [UInt8], former: [Former]) {
        self.voucher = voucher
        self.signature = signature
        self.former = former
    }

    /// Parses the TLV's value. Nil if it is of another form, which vouches for nothing.
    package init?(_ value: Span<UInt8>) {
        guard value.count >= Self.entryLength, value.count.isMultiple(of: Self.entryLength),
            value.count / Self.entryLength <= 1 + Self.maximumFormer
        else { return nil }
        var entries: [Former] = []
        for start in stride(from: 0, to: value.count, by: Self.entryLength) {
            let signature = value.extracting(start + 32..<start + Self.entryLength).copiedBytes()
            entries.append(Former(voucher: value.inline(at: start), signature: signature))
        }
        let own = entries.removeFirst()
        self.init(voucher: own.voucher, signature: own.signature, former: entries)
    }

    /// The TLV's value.
    package var bytes: [UInt8] {
        ([Former(voucher: voucher, signature: signature)] + former).flatMap {
            $0.voucher.span.copiedBytes() + $0.signature
        }
    }

    /// What the present voucher signs: the volume, the generations and class B's public key.
    package static func statement(of layout: KeybagLayout) -> [UInt8] {
        var bytes = Array("protectfs1/vouch\0".utf8) + layout.volumeID.bytes.span.copiedBytes()
        for index in 0..<8 {
            let generation = layout.generations[index]
            bytes += [UInt8(truncatingIfNeeded: generation), UInt8(truncatingIfNeeded: generation >> 8)]
        }
        return bytes + layout.publicKey.span.copiedBytes()
    }

    /// What a former voucher signs: the volume and the next voucher.
    package static func succession(_ volume: VolumeID, to next: InlineArray<32, UInt8>) -> [UInt8] {
        Array("protectfs1/vouch-next\0".utf8) + volume.bytes.span.copiedBytes() + next.span.copiedBytes()
    }
}
