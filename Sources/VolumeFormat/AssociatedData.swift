// Associated data, key-derivation contexts and key labels: the bytes that bind ciphertexts to their place.

/// Labels of the key derivation, with their common prefix.
package enum KeyLabel {
    /// Slot secret.
    package static let slot: StaticString = "protectfs1/slot"
    /// AEAD key of a slot's bundle, from the slot secret.
    package static let slotWrap: StaticString = "protectfs1/slot-wrap"
    /// Auth value of what a TPM has sealed, from the PIN's hash.
    package static let tpm2Auth: StaticString = "protectfs1/tpm2-auth"
    /// Material of a TPM's slot with a PIN, from what was sealed.
    package static let tpm2PIN: StaticString = "protectfs1/tpm2-pin"
    /// Commitment of a slot, from the slot secret.
    package static let slotCommit: StaticString = "protectfs1/slot-commit"
    /// Wrap key, from a class key.
    package static let wrap: StaticString = "protectfs1/wrap"
    /// Header MAC key, from M.
    package static let header: StaticString = "protectfs1/header"
    /// Directory record key, from M.
    package static let directoryRecord: StaticString = "protectfs1/dir-record"
    /// The root directory's ID, from M.
    package static let rootID: StaticString = "protectfs1/root-id"
    /// Key of a name's IV, from M.
    package static let nameIV: StaticString = "protectfs1/name-siv"
    /// Key of a name's cipher, from M.
    package static let nameCipher: StaticString = "protectfs1/name-enc"
    /// Key of a long name's hash, from M.
    package static let longName: StaticString = "protectfs1/name-long"
    /// Key of symlink targets, from M.
    package static let symlink: StaticString = "protectfs1/symlink"
    /// Key of an attribute name's IV, from M.
    package static let attributeNameIV: StaticString = "protectfs1/xattr-siv"
    /// Key of an attribute name's cipher, from M.
    package static let attributeNameCipher: StaticString = "protectfs1/xattr-enc"
    /// Key of attribute values, from M.
    package static let attributeValue: StaticString = "protectfs1/xattr-value"
    /// Key of overflow objects, from M.
    package static let overflow: StaticString = "protectfs1/overflow"
    /// MAC of the keybag that every mount checks, from M.
    package static let keybagDevice: StaticString = "protectfs1/keybag-dev"
    /// Key by which a daemon proves that it has the volume's keys, from M. Nothing that is stored depends on it.
    package static let mountProof: StaticString = "protectfs1/mount-proof"
    /// Private key of the voucher, from the device key.
    package static let vouch: StaticString = "protectfs1/vouch"
    /// MAC of the keybag that unlock checks, from U.
    package static let keybagUnlock: StaticString = "protectfs1/keybag-unlock"
    /// Wrap key of a late file's MAC key, from class key A.
    package static let late: StaticString = "protectfs1/late"
    /// Extent key, from a file key.
    package static let extent: StaticString = "protectfs1/extent"
}

/// Builders of associated data and contexts. Each writes a fixed number of bytes.
package enum AssociatedData {
    /// Bytes of a block's associated data, for any block but 0.
    package static let blockLength = 36
    /// Bytes of block 0's associated data.
    package static let firstBlockLength = 68

    /// Writes the part of the associated data that all blocks of a file share, with room for block 0's (68 bytes).
    package static func beginBlocks(header: FileHeader, into bytes: inout MutableSpan<UInt8>) {
        header.fileID.store(into: &bytes, at: 0)
        bytes.storeLittleEndian(header.suite.rawValue, at: 32)
        bytes.storeLittleEndian(PageGeometry.blockLog2, at: 33)
        bytes.storeLittleEndian(0 as UInt16, at: 34)
        header.storePrefix(into: &bytes, at: blockLength)
    }

    /// Writes the part of block `index` after `beginBlocks`, and returns the length of its associated data: 68 bytes for
    /// block 0, else 36.
    ///
    /// - Parameter field: the field's 8 bytes from the page, as a little-endian integer.
    package static func completeBlock(index: UInt64, field: UInt64, into bytes: inout MutableSpan<UInt8>) -> Int {
        bytes.storeLittleEndian(index, at: 16)
        bytes.storeLittleEndian(field, at: 24)
        return index == 0 ? firstBlockLength : blockLength
    }

    /// Associated data of a wrapped file key (HPKE's aad too).
    package static func wrap(volume: VolumeID, header: FileHeader) -> InlineArray<64, UInt8> {
        filled { bytes in
            bytes.copyText("protectfs1/wrap\0", to: 0)
            volume.store(into: &bytes, at: 16)
            header.storePrefix(into: &bytes, at: 32, forWrap: true)
        }
    }

    /// HPKE's info for class B: the volume and its public key.
    package static func hpkeInfo(volume: VolumeID, publicKey: InlineArray<32, UInt8>) -> InlineArray<64, UInt8> {
        filled { bytes in
            bytes.copyText("protectfs1/hpke\0", to: 0)
            volume.store(into: &bytes, at: 16)
            bytes.copy(publicKey.span, to: 32)
        }
    }

    /// HPKE's info for late records: the volume and class B's public key.
    package static func lateInfo(volume: VolumeID, publicKey: InlineArray<32, UInt8>) -> InlineArray<64, UInt8> {
        filled { bytes in
            bytes.copyText("protectfs1/late\0", to: 0)
            volume.store(into: &bytes, at: 16)
            bytes.copy(publicKey.span, to: 32)
        }
    }

    /// HPKE's aad for a late record: the lock's number ‖ the record's header.
    package static func lateRecord(number: UInt64, header: LateRecordHeader) -> InlineArray<64, UInt8> {
        filled { bytes in
            bytes.storeLittleEndian(number, at: 0)
            var rest = bytes._mutatingExtracting(8..<64)
            header.store(into: &rest)
        }
    }

    /// Context of the key that wraps a late file's MAC key: UUID ‖ number.
    package static func lateContext(volume: VolumeID, number: UInt64) -> InlineArray<24, UInt8> {
        filled { bytes in
            volume.store(into: &bytes, at: 0)
            bytes.storeLittleEndian(number, at: 16)
        }
    }

    /// Context of a class key's wrap key: UUID ‖ class ‖ generation.
    package static func wrapContext(
        volume: VolumeID, class protectionClass: ProtectionClass, generation: UInt16
    ) -> InlineArray<19, UInt8> {
        filled { bytes in
            volume.store(into: &bytes, at: 0)
            bytes.storeLittleEndian(protectionClass.rawValue, at: 16)
            bytes.storeLittleEndian(generation, at: 17)
        }
    }

    /// Context of an extent key: suite ‖ epoch ‖ extent number.
    package static func extentContext(suite: CipherSuite, epoch: UInt32, extent: UInt64) -> InlineArray<13, UInt8> {
        filled { bytes in
            bytes.storeLittleEndian(suite.rawValue, at: 0)
            bytes.storeLittleEndian(epoch, at: 1)
            bytes.storeLittleEndian(extent, at: 5)
        }
    }

    /// Context of a slot secret: UUID ‖ slot ID ‖ kind ‖ salt; a bound slot appends the device key (32 bytes).
    package static func slotContext(
        volume: VolumeID, slotID: UInt32, kind: UInt8, salt: InlineArray<16, UInt8>
    ) -> InlineArray<37, UInt8> {
        filled { bytes in
            volume.store(into: &bytes, at: 0)
            bytes.storeLittleEndian(slotID, at: 16)
            bytes.storeLittleEndian(kind, at: 20)
            bytes.copy(salt.span, to: 21)
        }
    }

    /// HPKE's info for the material of a recipient's slot: text ‖ UUID ‖ public key.
    package static func recipientInfo(
        volume: VolumeID, publicKey: InlineArray<32, UInt8>
    ) -> InlineArray<69, UInt8> {
        filled { bytes in
            bytes.copyText("protectfs1/recipient\0", to: 0)
            volume.store(into: &bytes, at: 21)
            bytes.copy(publicKey.span, to: 37)
        }
    }

    /// The beginning of a bundle's associated data, before the slot's own bytes: text ‖ UUID.
    package static func slotPrefix(volume: VolumeID) -> InlineArray<32, UInt8> {
        filled { bytes in
            bytes.copyText("protectfs1/slot\0", to: 0)
            volume.store(into: &bytes, at: 16)
        }
    }

    private static func filled<let count: Int>(
        _ fill: (inout MutableSpan<UInt8>) -> Void
    ) -> InlineArray<count, UInt8> {
        var result = InlineArray<count, UInt8>(repeating: 0)
        var bytes = result.mutableSpan
        fill(&bytes)
        return result
    }
}
