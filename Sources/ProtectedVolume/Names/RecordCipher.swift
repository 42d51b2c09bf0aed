// Makes and verifies directory records, and names those that are set aside.

internal import BackingStore
internal import Keybag
internal import SodiumKit
internal import VolumeFormat

/// The verified content of a directory's record.
struct VerifiedRecord: Hashable, Sendable {
    var directoryID: ObjectID
    var defaultClass: ProtectionClass?
}

extension NameCipher {
    /// The symlink's target for a record.
    func recordTarget(_ record: VerifiedRecord) -> [UInt8] {
        var stored = DirectoryRecord(directoryID: record.directoryID, defaultClass: record.defaultClass)
        var bytes = [UInt8](repeating: 0, count: DirectoryRecord.length)
        var raw = bytes.mutableSpan
        stored.store(into: &raw)
        stored.mac = mac128(keys.directoryRecord, bytes.span.extracting(DirectoryRecord.authenticated))
        return stored.target()
    }

    /// The record in a symlink's target; nil unless its MAC verifies and it parses.
    func record(target: [UInt8]) -> VerifiedRecord? {
        guard let bytes = DirectoryRecord.decode(target: target.span) else { return nil }
        let all = bytes.span
        let mac = mac128(keys.directoryRecord, all.extracting(DirectoryRecord.authenticated))
        guard constantTimeEqual(mac.span, all.extracting(DirectoryRecord.macRange)),
            let record = try? DirectoryRecord(parsing: all)
        else { return nil }
        return VerifiedRecord(directoryID: record.directoryID, defaultClass: record.defaultClass)
    }

    /// The name under which the record of `directory` is set aside in `parent`. `name` is the directory's backing name there.
    func asideName(parent: ObjectID, directory: ObjectID, name: EntryName) -> EntryName {
        let label = Self.bytes(of: "aside")
        let backing = Array(name.bytes)
        let mac = mac128(
            keys.directoryRecord, label.span, parent.bytes.span,
            directory.bytes.span, backing.span)
        let bytes = Self.bytes(of: ReservedName.asidePrefix) + Base64URL.encode(mac.span)
        return BackingName.known(bytes)
    }

    /// A fresh random directory ID.
    static func randomID() -> ObjectID { ObjectID(randomInlineBytes() as InlineArray<16, UInt8>) }
}
