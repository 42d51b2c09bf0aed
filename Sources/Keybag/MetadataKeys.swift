// The keys that are derived from the metadata key M: headers, names, links, attributes, directory records.

package import SodiumKit
package import VolumeFormat

/// The keys from the metadata key, derived once per mount and usable in every state of the volume.
///
/// Immutable, so that using it takes no lock.
package final class MetadataKeys: Sendable {
    /// Authenticates file headers.
    package let header: SecretKey
    /// Authenticates directory records and records set aside.
    package let directoryRecord: SecretKey
    /// Gives the synthetic IV of a name.
    package let nameIV: SecretKey
    /// Encrypts names.
    package let nameCipher: SecretKey
    /// Hashes the encodings of long names.
    package let longName: SecretKey
    /// Encrypts the targets of symbolic links.
    package let symlink: SecretKey
    /// Gives the synthetic IV of an attribute's name.
    package let attributeNameIV: SecretKey
    /// Encrypts the names of attributes.
    package let attributeNameCipher: SecretKey
    /// Encrypts the values of attributes.
    package let attributeValue: SecretKey
    /// Encrypts overflow objects.
    package let overflow: SecretKey
    /// Proves to a command that a daemon has the volume's keys (`MountChallenge`).
    package let mountProof: SecretKey
    /// The directory ID of the volume's root.
    package let rootID: ObjectID

    /// Derives all keys from `metadataKey` for the volume `volumeID`.
    package init(metadataKey: borrowing SecretKey, volumeID: VolumeID) throws(SodiumError) {
        let uuid = volumeID.bytes
        header = try deriveKey(from: metadataKey, label: KeyLabel.header, context: uuid.span)
        directoryRecord = try deriveKey(
            from: metadataKey, label: KeyLabel.directoryRecord, context: uuid.span)
        nameIV = try deriveKey(from: metadataKey, label: KeyLabel.nameIV, context: uuid.span)
        nameCipher = try deriveKey(from: metadataKey, label: KeyLabel.nameCipher, context: uuid.span)
        longName = try deriveKey(from: metadataKey, label: KeyLabel.longName, context: uuid.span)
        symlink = try deriveKey(from: metadataKey, label: KeyLabel.symlink, context: uuid.span)
        attributeNameIV = try deriveKey(
            from: metadataKey, label: KeyLabel.attributeNameIV, context: uuid.span)
        attributeNameCipher = try deriveKey(
            from: metadataKey, label: KeyLabel.attributeNameCipher, context: uuid.span)
        attributeValue = try deriveKey(
            from: metadataKey, label: KeyLabel.attributeValue, context: uuid.span)
        overflow = try deriveKey(from: metadataKey, label: KeyLabel.overflow, context: uuid.span)
        mountProof = try deriveKey(from: metadataKey, label: KeyLabel.mountProof, context: uuid.span)
        let root = try deriveKey(from: metadataKey, label: KeyLabel.rootID, context: uuid.span)
        rootID = root.withBytes { ObjectID($0) }
    }

    /// MAC-128 of a header's first 112 bytes.
    package func headerMAC(over bytes: Span<UInt8>) -> InlineArray<16, UInt8> {
        mac128(header, bytes)
    }
}
