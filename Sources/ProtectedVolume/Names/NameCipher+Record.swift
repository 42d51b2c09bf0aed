// The stored form of an attribute record: the record, or a reference to the overflow object that holds it.

internal import HostSystem
internal import KeyFiles
internal import Keybag
internal import SodiumKit
internal import VolumeFormat

/// What the store's attribute of a record holds.
enum OpenedRecord: ~Copyable {
    case inline(AttributeRecord)
    case overflow(OverflowReference)
    case newer
    case damaged
}

extension NameCipher {
    /// The first byte of the form.
    private enum Form {
        static let inline: UInt8 = 0
        static let overflow: UInt8 = 1
    }

    private static let recordAttribute = AttributeName.record.bytes

    /// The store's name of an object's record.
    func recordName(of object: ObjectID) -> [UInt8] { backingName(ofAttribute: Self.recordAttribute, of: object) }

    /// The stored form of a record.
    func sealRecord(_ record: Span<UInt8>, of object: ObjectID) throws(VolumeError) -> [UInt8] {
        var form = try Self.memory(1 + record.count)
        form.withMutableBytes { room in
            room[0] = Form.inline
            room.copy(record, to: 1)
        }
        wipeVectorRegisters()
        return form.withBytes { seal(form: $0, of: object) }
    }

    /// The stored form of a record that is an overflow object.
    func sealRecord(_ reference: OverflowReference, of object: ObjectID) -> [UInt8] {
        var form = [UInt8](repeating: 0, count: 1 + OverflowReference.length)
        form[0] = Form.overflow
        var room = form.mutableSpan
        var part = room._mutatingExtracting(1..<room.count)
        reference.store(into: &part)
        return seal(form: form.span, of: object)
    }

    private func seal(form: Span<UInt8>, of object: ObjectID) -> [UInt8] {
        Envelope.seal(
            form, key: keys.attributeValue, boundTo: Self.bytes(of: object) + Self.recordAttribute,
            version: Envelope.overflowVersion)
    }

    /// What a stored form holds.
    func openRecord(_ stored: [UInt8], of object: ObjectID) throws(VolumeError) -> OpenedRecord {
        guard let count = Envelope.contentLength(stored: stored.count) else { return .damaged }
        var form = try Self.memory(count)
        let isOpen = form.withMutableBytes { room in
            Envelope.open(
                stored, key: keys.attributeValue, boundTo: Self.bytes(of: object) + Self.recordAttribute, into: &room)
        }
        // The cipher leaves its last block on the stack.
        wipeStackBelow()
        guard isOpen else { return .damaged }
        guard stored.first == Envelope.overflowVersion, count > 1 else { return .newer }
        switch form.withBytes({ $0[0] }) {
        case Form.inline:
            var bytes = try Self.memory(count - 1)
            form.withBytes { form in bytes.withMutableBytes { $0.copy(form.extracting(1..<count), to: 0) } }
            wipeVectorRegisters()
            guard let record = AttributeRecord(bytes, overflow: nil) else { return .newer }
            return .inline(record)
        case Form.overflow:
            guard count == 1 + OverflowReference.length,
                let reference = form.withBytes({ OverflowReference($0.extracting(1..<count)) })
            else { return .newer }
            return .overflow(reference)
        default: return .newer
        }
    }

    /// Whether a newer version has made the stored form.
    func isNewerRecord(_ stored: [UInt8], of object: ObjectID) -> Bool {
        guard let opened = try? openRecord(stored, of: object) else { return false }
        switch opened {
        case .newer: return true
        default: return false
        }
    }

    static func memory(_ count: Int) throws(VolumeError) -> SecretBytes {
        do throws(SodiumError) { return try SecretBytes(byteCount: count) } catch { throw .store(.ENOMEM) }
    }
}
