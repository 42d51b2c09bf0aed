// The keys that come from the metadata key M: headers, names, links, attributes, directory records.

package import SodiumKit
package import VolumeFormat

/// What the metadata key gives, derived once per mount and usable in every state of the volume.
///
/// Immutable, so that no lock is taken to use it.
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
    /// The directory ID of the volume's root.
    package let rootID: ObjectID

    /// Derives everything from `metadataKey` for the volume `volumeID`.
    package init(metadataKey: borrowing SecretKey, volumeID: VolumeID) throws(SodiumError) {
        let uuid = volumeID.bytes
        header = try deriveKey(from: metadataKey, label: KeyLabel.header, context: unsafe uuid.span.bytes)
        directoryRecord = try deriveKey(
            from: metadataKey, label: KeyLabel.directoryRecord, context: unsafe uuid.span.bytes)
        nameIV = try deriveKey(from: metadataKey, label: KeyLabel.nameIV, context: unsafe uuid.span.bytes)
        nameCipher = try deriveKey(from: metadataKey, label: KeyLabel.nameCipher, context: unsafe uuid.span.bytes)
        longName = try deriveKey(from: metadataKey, label: KeyLabel.longName, context: unsafe uuid.span.bytes)
        symlink = try deriveKey(from: metadataKey, label: KeyLabel.symlink, context: unsafe uuid.span.bytes)
        attributeNameIV = try deriveKey(
            from: metadataKey, label: KeyLabel.attributeNameIV, context: unsafe uuid.span.bytes)
        attributeNameCipher = try deriveKey(
            from: metadataKey, label: KeyLabel.attributeNameCipher, context: unsafe uuid.span.bytes)
        attributeValue = try deriveKey(
            from: metadataKey, label: KeyLabel.attributeValue, context: unsafe uuid.span.bytes)
        let root = try deriveKey(from: metadataKey, label: KeyLabel.rootID, context: unsafe uuid.span.bytes)
        rootID = root.withBytes { ObjectID($0) }
    }

    /// MAC-128 of a header's first 112 bytes.
    package func headerMAC(over bytes: RawSpan) -> InlineArray<16, UInt8> {
        mac128(header, bytes)
    }
}
