// The encrypted attributes of one object in the store: a few small ones each in an attribute of the store, all others together
// in one, the record, or in an overflow object to which it refers.

package import BackingStore
internal import HostSystem
package import KeyFiles
internal import SodiumKit
package import VolumeFormat

/// The encrypted attributes of an object. Errors of kind `damaged` and `newer` are not reported here.
package struct StoredAttributes {
    /// An attribute has one of the store's own if there are fewer than `most`, and name and value are short. So these leave
    /// room for the record in the 4 KiB that ext4 has for each object, and for ACLs.
    private enum Single {
        static let most = 8
        static let longestName = 64
        static let longestValue = 128
    }
    /// A longer record is an overflow object.
    private static let longestInline = 1024

    let object: BackingNode
    let id: ObjectID
    let names: NameCipher
    let overflow: OverflowObjects

    /// The store's name of the record.
    private var recordName: [UInt8] { names.recordName(of: id) }

    // MARK: reading

    /// The record; an empty one if there is none.
    ///
    /// - Parameter all: the names of the object's attributes in the store.
    package func record(in all: [[UInt8]]) throws(VolumeError) -> AttributeRecord {
        let recordName = recordName
        guard all.contains(recordName) else { return try AttributeRecord() }
        var last: [UInt8] = []
        while true {
            let stored: [UInt8]
            do throws(Errno) { stored = try object.attribute(recordName) } catch {
                if error == .ENODATA { return try AttributeRecord() }
                throw .store(error)
            }
            do throws(VolumeError) {
                return try open(stored)
            } catch {
                // A change may have removed the overflow object since the reference was read.
                guard case .damaged = error, stored != last else { throw error }
            }
            last = stored
        }
    }

    private func open(_ stored: [UInt8]) throws(VolumeError) -> AttributeRecord {
        switch try names.openRecord(stored, of: id) {
        case .damaged: throw .damaged(.attribute)
        case .newer: throw .newer(.attribute)
        case .inline(let record): return record
        case .overflow(let reference):
            let content = try overflow.secret(of: reference, owner: .attribute)
            guard let record = AttributeRecord(content, overflow: reference.id) else { throw .newer(.attribute) }
            return record
        }
    }

    /// The overflow object of the record, if it is one.
    func overflowReference(in all: [[UInt8]]) -> OverflowReference? {
        guard all.contains(recordName), let stored = try? object.attribute(recordName),
            let opened = try? names.openRecord(stored, of: id)
        else { return nil }
        switch opened {
        case .overflow(let reference): return reference
        default: return nil
        }
    }

    /// The overflow object of the record, if it is one. Unlike `overflowReference` it throws if that is not certain.
    package func usedOverflow(in all: [[UInt8]]) throws(VolumeError) -> ObjectID? {
        guard all.contains(recordName) else { return nil }
        let stored = try below { () throws(Errno) in try object.attribute(recordName) }
        switch try names.openRecord(stored, of: id) {
        case .damaged: throw .damaged(.attribute)
        case .newer: throw .newer(.attribute)
        case .inline: return nil
        case .overflow(let reference): return reference.id
        }
    }

    /// The store's name of an attribute that has one of its own; nil if the name is too long for one, or there is none.
    func single(_ name: [UInt8], in all: [[UInt8]]) throws(VolumeError) -> [UInt8]? {
        guard name.count <= NameLimits.longestSingleAttribute else { return nil }
        let single = try names.encodeAttribute(name, of: id)
        return all.contains(single) ? single : nil
    }

    /// A value, in an array that is not wiped; nil if it is missing or does not verify. Only for a check.
    package func value(of name: [UInt8]) -> [UInt8]? {
        guard let all = try? object.attributeNames() else { return nil }
        if let single = (try? single(name, in: all)) ?? nil {
            return (try? object.attribute(single)).flatMap { names.openValue($0, name: name, of: id) }
        }
        guard let record = try? record(in: all) else { return nil }
        return record.value(of: name)
    }

    // MARK: writing

    /// Sets an attribute. The caller keeps others from changing the object's attributes.
    ///
    /// - Parameter isOver: asked once the change is made: whether the former overflow object now belongs to another object.
    /// - Returns: the overflow object that holds the record now.
    package func set(
        _ name: [UInt8], to value: Span<UInt8>, mode: AttributeMode, isOver: () -> Bool = { false }
    ) throws(VolumeError) -> ObjectID? {
        let all = try storedNames()
        let old = try single(name, in: all)
        let record = try record(in: all)
        let isInRecord = record.contains(name)
        if mode == .create, old != nil || isInRecord { throw .store(.EEXIST) }
        if mode == .replace, old == nil, !isInRecord { throw .store(.ENODATA) }
        if let old {
            let stored: [UInt8]
            do throws(Errno) { stored = try object.attribute(old) } catch { throw .store(error) }
            if names.isNewerValue(stored, name: name, of: id) { throw .newer(.attribute) }
        }
        if old != nil || !isInRecord && isSmall(name, value, among: all) {
            // ext4 has no room for a value: ENOSPC. Others say E2BIG.
            let single = try names.encodeAttribute(name, of: id)
            if try put(names.sealValue(value, name: name, of: id), at: single) { return record.overflow }
        }
        let new = try record.setting(name, to: value)
        let overflow = try store(new, isOver)
        if let old { try below { () throws(Errno) in try object.removeAttribute(old) } }
        return overflow
    }

    /// Removes an attribute; ENODATA if it does not exist.
    ///
    /// - Parameter isOver: as for `set`.
    /// - Returns: the overflow object that holds the record now.
    func remove(_ name: [UInt8], isOver: () -> Bool) throws(VolumeError) -> ObjectID? {
        let all = try storedNames()
        let old = try single(name, in: all)
        let record = try record(in: all)
        var overflow = record.overflow
        guard old != nil || record.contains(name) else { throw .store(.ENODATA) }
        if record.contains(name) { overflow = try store(record.removing(name), isOver) }
        if let old { try below { () throws(Errno) in try object.removeAttribute(old) } }
        return overflow
    }

    private func isSmall(_ name: [UInt8], _ value: Span<UInt8>, among all: [[UInt8]]) -> Bool {
        name.count <= Single.longestName && value.count <= Single.longestValue
            && all.count { NameCipher.isEncryptedAttribute($0, of: id) } < Single.most
    }

    /// Writes a record, with the object that held the one before in its `overflow`.
    private func store(_ record: borrowing AttributeRecord, _ isOver: () -> Bool) throws(VolumeError) -> ObjectID? {
        let before = record.overflow
        if let before { try overflow.willReplace(before) }
        var after: ObjectID?
        if record.isEmpty {
            try below { () throws(Errno) in try object.removeAttribute(recordName) }
        } else {
            after = try record.withBytes { (bytes) throws(VolumeError) in try write(bytes) }
        }
        if isOver() {
            // The object has no name left, so nothing will read its new record.
            if let after { overflow.remove(after) }
            return nil
        }
        if let before { removeOverflow(before) }
        return after
    }

    private func write(_ bytes: Span<UInt8>) throws(VolumeError) -> ObjectID? {
        if bytes.count <= Self.longestInline, try put(names.sealRecord(bytes, of: id), at: recordName) { return nil }
        guard bytes.count <= OverflowReference.longestContent else { throw .store(.ENOSPC) }
        let reference = try overflow.add(bytes)
        let sealed = names.sealRecord(reference, of: id)
        do throws(Errno) {
            try object.setAttribute(recordName, sealed)
        } catch {
            // A network store may have lost the reply to a change that it has made. Then the object is needed.
            switch isStored(sealed) {
            case true?: break
            case false?:
                overflow.remove(reference.id)
                throw .store(error)
            case nil: throw .store(error)
            }
        }
        return reference.id
    }

    /// Whether this is the stored record; nil if it cannot be read.
    private func isStored(_ sealed: [UInt8]) -> Bool? {
        do throws(Errno) { return try object.attribute(recordName) == sealed } catch {
            return error == .ENODATA ? false : nil
        }
    }

    /// Sets an attribute of the store; false if it has no room for the value.
    private func put(_ value: [UInt8], at name: [UInt8]) throws(VolumeError) -> Bool {
        do throws(Errno) {
            try object.setAttribute(name, value)
            return true
        } catch {
            switch error {
            case .ENOSPC, .E2BIG, .ERANGE: return false
            default: throw .store(error)
            }
        }
    }

    /// Removes the overflow object of a record that was replaced. The new reference reaches the disk first.
    private func removeOverflow(_ id: ObjectID) {
        if !overflow.keepsOrder {
            do throws(Errno) {
                if let directory = object as? BackingDirectory {
                    try directory.synchronize()
                } else {
                    try object.openFile(.readOnly).synchronize(dataOnly: false)
                }
            } catch {
                // A check finds it.
                return
            }
        }
        overflow.remove(id)
    }

    private func storedNames() throws(VolumeError) -> [[UInt8]] {
        try below { () throws(Errno) in try object.attributeNames() }
    }

    private func below<Result>(_ body: () throws(Errno) -> Result) throws(VolumeError) -> Result {
        do throws(Errno) { return try body() } catch { throw .store(error) }
    }
}
