// Encrypts names of directory entries and of extended attributes: synthetic IV, then XChaCha20, then base64url.

package import BackingStore
internal import HostSystem
package import KeyFiles
internal import Keybag
internal import SodiumKit
package import VolumeFormat

/// The backing name of an entry; long names have a companion that holds the encoding.
package struct EncodedName: Sendable {
    /// The backing entry.
    package let entry: EntryName
    /// For a long name: the companion's name and target.
    package let companion: Companion?

    /// The object beside a long name that holds its encoding.
    package struct Companion: Sendable {
        /// Its name in the store.
        package let name: EntryName
        /// The encoding, as a symlink's target.
        package let target: [UInt8]
    }
}

/// A decoded backing name.
package enum DecodedName: Sendable {
    /// A user's name, verified.
    case name([UInt8])
    /// A decrypted name that nothing can verify: the store may have chosen it.
    case unverified([UInt8])
    /// Not decryptable here.
    case undecryptable
    /// A reserved name, which is not shown.
    case reserved
}

/// Encrypts and verifies names with the keys that come from M. Stateless; usable in every lock state.
package struct NameCipher: Sendable {
    let keys: MetadataKeys
    /// The longest name whose encoding is the backing name, in this store.
    var longestDirect = NameLimits.longestDirect

    /// Whether an entry can have this decrypted name.
    static func isValid(_ name: Span<UInt8>) -> Bool {
        guard (1...NameLimits.longest).contains(name.count) else { return false }
        var isDots = name.count <= 2
        for index in name.indices {
            let byte = name[index]
            if byte == 0 || byte == UInt8(ascii: "/") { return false }
            if byte != UInt8(ascii: ".") { isDots = false }
        }
        return !isDots
    }

    /// The same for an array.
    static func isValid(_ name: [UInt8]) -> Bool { isValid(name.span) }

    // MARK: entries

    /// The backing name of `name` in the directory `directory`.
    ///
    /// - Parameter isLong: gives the form that the name has in a store with shorter names.
    func encode(
        _ name: Span<UInt8>, in directory: ObjectID, isLong: Bool = false
    ) throws(VolumeError) -> EncodedName {
        guard name.count <= NameLimits.longest else { throw .nameTooLong }
        guard Self.isValid(name) else { throw .invalid }
        var text = EncodedText(repeating: 0)
        var room = text.mutableSpan
        let length = seal(
            name, object: directory, ivKey: keys.nameIV, cipherKey: keys.nameCipher, into: &room, at: 0)
        let encoded = text.span.extracting(0..<length)
        guard isLong || name.count > longestDirect else {
            guard let entry = EntryName(encoded) else { throw .nameTooLong }
            return EncodedName(entry: entry, companion: nil)
        }
        guard name.count > NameLimits.longestNeverLong else { throw .nameTooLong }
        let encoding = encoded.copiedBytes()
        let long = longName(of: encoding, in: directory)
        let companion = EncodedName.Companion(
            name: try entryName(long + NameLimits.companionSuffix.bytes), target: encoding)
        return EncodedName(entry: try entryName(long), companion: companion)
    }

    /// The same for an array.
    package func encode(_ name: [UInt8], in directory: ObjectID) throws(VolumeError) -> EncodedName {
        try encode(name.span, in: directory)
    }

    /// Decrypts `encoding`. The name is verified if the directory's ID is known; otherwise it is only well-formed.
    func decode(_ encoding: Span<UInt8>, in directory: ObjectID?) -> [UInt8]? {
        var name: [UInt8] = []
        return decode(encoding, in: directory, into: &name) ? name : nil
    }

    /// The same into an array that keeps its room, for listings.
    func decode(_ encoding: Span<UInt8>, in directory: ObjectID?, into name: inout [UInt8]) -> Bool {
        open(encoding, object: directory, ivKey: keys.nameIV, cipherKey: keys.nameCipher, into: &name)
            && Self.isValid(name)
    }

    /// The same for an array.
    package func decode(_ encoding: [UInt8], in directory: ObjectID?) -> [UInt8]? {
        decode(encoding.span, in: directory)
    }

    /// `~` ‖ b64(MAC-256(directory ID ‖ encoding)).
    func longName(of encoding: [UInt8], in directory: ObjectID) -> [UInt8] {
        let mac = mac256(keys.longName, directory.bytes.span, encoding.span)
        return NameLimits.longPrefix.bytes + Base64URL.encode(mac.span)
    }

    // MARK: attributes

    /// The backing name of an attribute with its namespace.
    func encodeAttribute(_ name: [UInt8], of object: ObjectID) throws(VolumeError) -> [UInt8] {
        guard name.count <= NameLimits.longestSingleAttribute else { throw .refused(.ERANGE) }
        return backingName(ofAttribute: name, of: object)
    }

    /// The same for a name of which the length is known.
    func backingName(ofAttribute name: [UInt8], of object: ObjectID) -> [UInt8] {
        let prefix = Self.prefix(of: object)
        var text = EncodedText(repeating: 0)
        var room = text.mutableSpan
        room.copyText(prefix, to: 0)
        let length = seal(
            name.span, object: object, ivKey: keys.attributeNameIV, cipherKey: keys.attributeNameCipher, into: &room,
            at: prefix.utf8CodeUnitCount)
        return text.span.extracting(0..<(prefix.utf8CodeUnitCount + length)).copiedBytes()
    }

    /// Decrypts and verifies the backing name of an attribute; nil if it is not an attribute of this object.
    package func decodeAttribute(_ backingName: [UInt8], of object: ObjectID) -> [UInt8]? {
        let prefix = Self.prefix(of: object)
        guard backingName.span.hasText(prefix) else { return nil }
        var name: [UInt8] = []
        let isOurs = open(
            backingName.span.extracting(prefix.utf8CodeUnitCount..<backingName.count), object: object,
            ivKey: keys.attributeNameIV, cipherKey: keys.attributeNameCipher, into: &name)
        return isOurs ? name : nil
    }

    private static func prefix(of object: ObjectID) -> StaticString {
        object == .absent ? AttributeName.encryptedTrustedPrefix : AttributeName.encryptedPrefix
    }

    /// Whether an attribute in the store is an encrypted one, of an object of any kind.
    package static func isEncryptedAttribute(_ stored: [UInt8]) -> Bool {
        let bytes = stored.span
        return bytes.hasText(AttributeName.encryptedPrefix) || bytes.hasText(AttributeName.encryptedTrustedPrefix)
    }

    /// The same, of this object.
    package static func isEncryptedAttribute(_ stored: [UInt8], of object: ObjectID) -> Bool {
        stored.span.hasText(prefix(of: object))
    }

    /// Whether an attribute is an ACL, which is stored as it is.
    static func isACL(_ name: [UInt8]) -> Bool {
        let bytes = name.span
        return bytes.equals(AttributeName.accessACL) || bytes.equals(AttributeName.defaultACL)
    }

    /// The stored form of a value, bound to object and name.
    func sealValue(_ value: Span<UInt8>, name: [UInt8], of object: ObjectID) -> [UInt8] {
        Envelope.seal(value, key: keys.attributeValue, boundTo: Self.bytes(of: object) + name)
    }

    /// The same for an array.
    func sealValue(_ value: [UInt8], name: [UInt8], of object: ObjectID) -> [UInt8] {
        sealValue(value.span, name: name, of: object)
    }

    /// Decrypts and verifies a value into the beginning of `output`, which must have room for it (`valueLength`).
    ///
    /// - Returns: false when the value does not verify for that name, or is newer; `output` then holds nothing of it.
    func openValue(
        _ stored: [UInt8], name: [UInt8], of object: ObjectID, into output: inout MutableSpan<UInt8>
    ) -> Bool {
        guard let length = Envelope.contentLength(stored: stored.count), Envelope.isOurs(stored) else { return false }
        var part = output._mutatingExtracting(0..<length)
        let isOpen = Envelope.open(
            stored, key: keys.attributeValue, boundTo: Self.bytes(of: object) + name, into: &part)
        // The cipher leaves its last block on the stack.
        wipeStackBelow()
        return isOpen
    }

    /// The same into an array, for values that are not secrets of a running mount.
    package func openValue(_ stored: [UInt8], name: [UInt8], of object: ObjectID) -> [UInt8]? {
        guard Envelope.isOurs(stored) else { return nil }
        return Envelope.open(stored, key: keys.attributeValue, boundTo: Self.bytes(of: object) + name)
    }

    /// Whether a value, of which nothing was verified, claims another version.
    static func mayBeNewer(value stored: [UInt8]) -> Bool { !Envelope.isOurs(stored) }

    /// Whether a value that `openValue` refuses verifies, so that a newer version has made it.
    package func isNewerValue(_ stored: [UInt8], name: [UInt8], of object: ObjectID) -> Bool {
        guard !Envelope.isOurs(stored) else { return false }
        if name.span.equals(AttributeName.record), stored.first == Envelope.overflowVersion {
            return isNewerRecord(stored, of: object)
        }
        return Envelope.open(stored, key: keys.attributeValue, boundTo: Self.bytes(of: object) + name) != nil
    }

    // MARK: symlinks

    /// The stored form of a link's target.
    func sealTarget(_ target: [UInt8]) -> [UInt8] {
        Base64URL.encode(Envelope.seal(target.span, key: keys.symlink, boundTo: []).span)
    }

    /// A link's target; nil if it does not verify, or is newer.
    package func openTarget(_ stored: [UInt8]) -> [UInt8]? {
        guard let bytes = Base64URL.decode(stored.span), Envelope.isOurs(bytes) else { return nil }
        return Envelope.open(bytes, key: keys.symlink, boundTo: [])
    }

    /// The stored form of a link whose target is an overflow object.
    func sealTarget(_ reference: OverflowReference) -> [UInt8] {
        let form = LongTarget.bytes(of: reference)
        return Base64URL.encode(
            Envelope.seal(form.span, key: keys.symlink, boundTo: [], version: Envelope.overflowVersion).span)
    }

    /// The reference in a link whose target is an overflow object; nil for any other link.
    package func openLongTarget(_ stored: [UInt8]) -> OverflowReference? {
        guard stored.count == LongTarget.storedLength, let bytes = Base64URL.decode(stored.span),
            bytes.first == Envelope.overflowVersion
        else { return nil }
        return Envelope.open(bytes, key: keys.symlink, boundTo: []).flatMap(LongTarget.reference)
    }

    /// Whether a target verifies, and is in no form that this program knows, so that a newer version has made it.
    package func isNewerTarget(_ stored: [UInt8]) -> Bool {
        guard let bytes = Base64URL.decode(stored.span), !Envelope.isOurs(bytes) else { return false }
        return Envelope.open(bytes, key: keys.symlink, boundTo: []) != nil && openLongTarget(stored) == nil
    }

    /// The length of the target whose stored form has `length` characters, for `st_size` without a read.
    static func targetLength(stored length: UInt64) -> UInt64 {
        guard length <= 65536, let bytes = Base64URL.decodedLength(of: Int(length)) else { return 0 }
        return UInt64(Envelope.contentLength(stored: bytes) ?? 0)
    }

    // MARK: primitives

    /// Room for an IV and the longest name.
    private typealias SealedBytes = InlineArray<271, UInt8>
    /// Room for their text, or that of an attribute's name with its prefix.
    private typealias EncodedText = InlineArray<362, UInt8>

    /// Writes the encoding of a name at `offset` of `text`, and gives its length.
    private func seal(
        _ name: Span<UInt8>, object: ObjectID, ivKey: borrowing SecretKey, cipherKey: borrowing SecretKey,
        into text: inout MutableSpan<UInt8>, at offset: Int
    ) -> Int {
        let iv = mac128(ivKey, object.bytes.span, name)
        var bytes = SealedBytes(repeating: 0)
        for index in 0..<NameLimits.ivLength { bytes[index] = iv[index] }
        let length = NameLimits.ivLength + name.count
        var room = bytes.mutableSpan
        room.copy(name, to: NameLimits.ivLength)
        var plain = room._mutatingExtracting(NameLimits.ivLength..<length)
        apply(cipherKey, iv: iv, to: &plain)
        return Base64URL.encode(bytes.span.extracting(0..<length), into: &text, at: offset)
    }

    private func open(
        _ encoding: Span<UInt8>, object: ObjectID?, ivKey: borrowing SecretKey, cipherKey: borrowing SecretKey,
        into opened: inout [UInt8]
    ) -> Bool {
        var bytes = SealedBytes(repeating: 0)
        var room = bytes.mutableSpan
        guard let length = Base64URL.decodedLength(of: encoding.count), length > NameLimits.ivLength,
            length <= room.count, Base64URL.decode(encoding, into: &room) != nil
        else { return false }
        let iv: InlineArray<16, UInt8> = bytes.span.inline(at: 0)
        var name = bytes.mutableSpan
        var part = name._mutatingExtracting(NameLimits.ivLength..<length)
        apply(cipherKey, iv: iv, to: &part)
        let plain = bytes.span.extracting(NameLimits.ivLength..<length)
        if let object {
            let expected = mac128(ivKey, object.bytes.span, plain)
            guard constantTimeEqual(expected.span, iv.span) else { return false }
        }
        opened.removeAll(keepingCapacity: true)
        for index in plain.indices { opened.append(plain[index]) }
        return true
    }

    /// XChaCha20 over a name, with nonce IV ‖ 0⁸ from block 1.
    private func apply(_ key: borrowing SecretKey, iv: InlineArray<16, UInt8>, to name: inout MutableSpan<UInt8>) {
        var nonce = InlineArray<24, UInt8>(repeating: 0)
        for index in 0..<16 { nonce[index] = iv[index] }
        XChaCha.applyStream(to: &name, key: key, nonce: nonce.span, counter: 1)
    }

    private func entryName(_ bytes: [UInt8]) throws(VolumeError) -> EntryName {
        guard let name = EntryName(bytes) else { throw .nameTooLong }
        return name
    }

    static func bytes(of array: InlineArray<16, UInt8>) -> [UInt8] { array.span.copiedBytes() }

    static func bytes(of object: ObjectID) -> [UInt8] { bytes(of: object.bytes) }
}
