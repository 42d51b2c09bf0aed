// Makes and verifies directory records, and names those that are set aside.

internal import BackingStore
internal import KeyFiles
internal import Keybag
internal import SodiumKit
package import VolumeFormat

/// The verified content of a directory's record.
package struct VerifiedRecord: Hashable, Sendable {
    /// The ID under which the directory's names are encrypted.
    package var directoryID: ObjectID
    /// The default class, as far as it is known.
    package var defaultClass: ProtectionClass?
    /// Flags of a newer version that are kept when the record is replaced.
    var keptFlags: RecordFlags = []
    /// The part of the record that this program understands.
    package var known = KnownPart.all

    /// A record of this version, unless told otherwise.
    package init(
        directoryID: ObjectID, defaultClass: ProtectionClass?, keptFlags: RecordFlags = [], known: KnownPart = .all
    ) {
        self.directoryID = directoryID
        self.defaultClass = defaultClass
        self.keptFlags = keptFlags
        self.known = known
    }

    /// The part of a record that this program understands.
    package enum KnownPart: Sendable {
        /// Everything.
        case all
        /// A newer version has made the record. Its class is known, and nothing in the directory is changed.
        case classAndNames
        /// A newer version has made the record. Only the ID is known, under which the directory's names verify.
        case names
    }

    /// Whether a newer version has made the record, so that nothing in the directory is changed.
    package var isNewer: Bool { known != .all }
}

extension NameCipher {
    /// The symlink's target for a record, which is not a newer one.
    package func recordTarget(_ record: VerifiedRecord) -> [UInt8] {
        var stored = DirectoryRecord(
            directoryID: record.directoryID, defaultClass: record.defaultClass, flags: record.keptFlags)
        var bytes = InlineArray<44, UInt8>(repeating: 0)
        var raw = bytes.mutableSpan
        stored.store(into: &raw)
        stored.mac = mac128(keys.directoryRecord, bytes.span.extracting(DirectoryRecord.authenticated))
        return stored.target()
    }

    /// The record in a symlink's target; nil unless its MAC verifies.
    package func record(target: [UInt8]) -> VerifiedRecord? {
        if let bytes = DirectoryRecord.decode(target: target.span) { return record(bytes.span) }
        // A newer version's record may be longer.
        guard target.count > DirectoryRecord.targetLength, let bytes = Base64URL.decode(target.span) else { return nil }
        return record(bytes.span)
    }

    /// The record in at least 44 bytes; nil unless its MAC verifies, which every version has at the end.
    private func record(_ all: Span<UInt8>) -> VerifiedRecord? {
        let end = all.count - DirectoryRecord.macRange.count
        let mac = mac128(keys.directoryRecord, all.extracting(0..<end))
        guard constantTimeEqual(mac.span, all.extracting(end..<all.count)) else { return nil }
        do throws(FormatError) {
            let record = try DirectoryRecord(parsing: all)
            return VerifiedRecord(
                directoryID: record.directoryID, defaultClass: record.defaultClass,
                keptFlags: record.flags.intersection(.kept),
                known: record.flags.areReadableOnly ? .classAndNames : .all)
        } catch {
            return VerifiedRecord(directoryID: DirectoryRecord.directoryID(in: all), defaultClass: nil, known: .names)
        }
    }

    /// The name under which the record of `directory` is set aside in `parent`. `name` is the directory's backing name there.
    func asideName(parent: ObjectID, directory: ObjectID, name: EntryName) -> EntryName {
        let label = StaticString("aside").bytes
        let backing = Array(name.bytes)
        let mac = mac128(
            keys.directoryRecord, label.span, parent.bytes.span,
            directory.bytes.span, backing.span)
        let bytes = ReservedName.asidePrefix.bytes + Base64URL.encode(mac.span)
        return BackingName.known(bytes)
    }

    /// A fresh random directory ID.
    package static func randomID() -> ObjectID { ObjectID(pooledBytes() as InlineArray<16, UInt8>) }
}
