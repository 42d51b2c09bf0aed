// Makes objects that a newer version might have made: changed fields under right MACs and tags. And images of a store.

import BackingStore
import HostSystem
import KeyFiles
import Keybag
import SodiumKit
import Testing
import VolumeFormat

@testable import FileContents
@testable import ProtectedVolume

extension TestVolume {
    /// Changes the first 112 bytes of a file's header, and signs them again. Block 0 is not encrypted again.
    func signHeader(_ path: String, _ change: (inout [UInt8]) -> Void) throws {
        let (directory, entry) = try backing(path)
        let file = try directory.openFile(entry, .readWrite)
        var bytes = [UInt8](repeating: 0, count: FileHeader.length)
        var raw = bytes.mutableSpan
        _ = try file.read(into: &raw, at: 0)
        change(&bytes)
        let mac = volume.keys.metadata.headerMAC(over: bytes.span.extracting(FileHeader.authenticated))
        for index in 0..<16 { bytes[FileHeader.macRange.lowerBound + index] = mac[index] }
        try file.write(bytes.span, at: 0)
    }

    /// Sets flags in a file's header, and encrypts block 0 for them.
    func setFlags(_ path: String, _ bits: UInt16) throws {
        let node = try node(path)
        try volume.withContent(node, writable: true) { (content) throws(VolumeError) in
            try content.rewriteHeader(.other) { (_, header) in
                header.flags.insert(FileFlags(rawValue: bits))
            }
        }
    }

    /// Encrypts a block of a file again with a changed field of 8 bytes.
    func signBlock(_ path: String, _ block: UInt64, _ change: @escaping (inout [UInt8]) -> Void) throws {
        let node = try node(path)
        try volume.withContent(node, writable: true) { (content) throws(VolumeError) in
            let geometry = content.geometry
            var page = [UInt8](repeating: 0, count: PageGeometry.pageSize)
            var text = [UInt8](repeating: 0, count: geometry.capacity(ofBlock: block))
            var raw = page.mutableSpan
            var plain = text.mutableSpan
            do throws(Errno) {
                _ = try content.backing.read(into: &raw, at: PageGeometry.offset(ofPage: block))
            } catch { throw .store(error) }
            var codec = PageCodec(geometry: geometry, keys: content.fileKeys, header: content.header)
            guard case .block(let known) = try codec.open(raw.span, block: block, into: &plain) else {
                throw .damaged(.block)
            }
            let start = geometry.fieldRange(ofBlock: block).lowerBound
            var field = raw.span.extracting(start..<start + BlockField.length).copiedBytes()
            change(&field)
            raw.copy(field.span, to: start)
            guard
                let cipher = try content.fileKeys.cipher(
                    epoch: known.epoch, extent: PageGeometry.extent(ofPage: block))
            else { throw .locked(content.protectionClass) }
            var data = InlineArray<68, UInt8>(repeating: 0)
            var bytes = data.mutableSpan
            AssociatedData.beginBlocks(header: content.header, into: &bytes)
            let length = AssociatedData.completeBlock(
                index: block, field: raw.span.littleEndian(at: start), into: &bytes)
            let place = BlockPlace(
                nonce: geometry.nonceRange(ofBlock: block).lowerBound,
                text: geometry.ciphertextRange(ofBlock: block), tag: geometry.tagRange.lowerBound)
            cipher.seal(plain.span, into: &raw, place, associatedData: bytes.span.extracting(0..<length))
            do throws(Errno) {
                try content.backing.write(raw.span, at: PageGeometry.offset(ofPage: block))
            } catch { throw .store(error) }
        }
    }

    /// Changes the record of a directory, without its MAC, and signs it again.
    func signRecord(_ path: String, _ change: (inout [UInt8]) -> Void) throws {
        let directory = try volume.directory(node(path))
        let target = try signed(record: directory.readSymlink(BackingName.record), change)
        try directory.unlink(BackingName.record)
        try directory.createSymlink(BackingName.record, target: target)
    }

    /// The target of a record's symlink, changed and signed again.
    func signed(record target: [UInt8], _ change: (inout [UInt8]) -> Void) throws -> [UInt8] {
        guard let known = Base64URL.decode(target.span) else { throw VolumeError.damaged(.record) }
        var record = Array(known.dropLast(16))
        change(&record)
        let mac = mac128(volume.keys.metadata.directoryRecord, record.span)
        return Base64URL.encode((record + NameCipher.bytes(of: mac)).span)
    }

    /// What the version byte of an envelope covers, sealed for another version.
    private func seal(
        _ content: [UInt8], version: UInt8, key: borrowing SecretKey, boundTo context: [UInt8]
    ) -> [UInt8] {
        let nonce: InlineArray<24, UInt8> = randomInlineBytes()
        var stored = [UInt8](repeating: 0, count: content.count + 41)
        var raw = stored.mutableSpan
        raw.storeLittleEndian(version, at: 0)
        raw.copy(nonce.span, to: 1)
        var sealed = raw._mutatingExtracting(25..<raw.count)
        let data = [version] + context
        XChaCha.seal(content.span, key: key, nonce: nonce.span, associatedData: data.span, into: &sealed)
        return stored
    }

    /// Replaces a symlink by one of version 3.
    func signLink(_ path: String, _ target: String) throws {
        let (directory, entry) = try backing(path)
        let stored = seal(Array(target.utf8), version: 3, key: volume.keys.metadata.symlink, boundTo: [])
        try directory.unlink(entry)
        try directory.createSymlink(entry, target: Base64URL.encode(stored.span))
    }

    /// Replaces an attribute's value by one of version 3.
    func signAttribute(_ path: String, _ name: String, _ value: String) throws {
        let node = try node(path)
        let id = try volume.objectID(of: node)
        let name = Array(name.utf8)
        let stored = seal(
            Array(value.utf8), version: 3, key: volume.keys.metadata.attributeValue,
            boundTo: NameCipher.bytes(of: id) + name)
        try volume.backing(node).setAttribute(volume.names.encodeAttribute(name, of: id), stored, mode: .set)
    }

    /// The volume after a clean end of this mount.
    func again(options: VolumeOptions = VolumeOptions(), unlocked: Bool = true) throws -> TestVolume {
        try volume.close()
        return try mountAgain(directory, unlocked: unlocked, options: options)
    }

    /// Expects `body` to be refused because of a newer object, and to change nothing in the store.
    func refuses(
        _ object: Damage, _ what: String, location: SourceLocation = #_sourceLocation,
        _ body: () throws(VolumeError) -> Void
    ) throws {
        let before = try image(of: directory)
        var found: VolumeError?
        do throws(VolumeError) { try body() } catch { found = error }
        #expect(found == .newer(object), "\(what)", sourceLocation: location)
        #expect(found?.errno == .EOPNOTSUPP, "\(what)", sourceLocation: location)
        let after = try image(of: directory)
        #expect(before == after, "\(what) has changed the store", sourceLocation: location)
    }

    /// How many notices of newer objects were reported.
    var newerNotices: Int { notices.withLock { $0.filter { $0.hasPrefix("newer(") }.count } }
}

/// Names, kinds, contents, targets and attributes of everything in a store.
func image(of directory: BackingDirectory, below path: [UInt8] = []) throws -> [[UInt8]: [[UInt8]]] {
    var found: [[UInt8]: [[UInt8]]] = [:]
    for entry in try directory.entries() {
        let name = path + [UInt8(ascii: "/")] + Array(entry.name.bytes)
        let status = try directory.status(of: entry.name)
        var value: [[UInt8]] = [Array("\(status.kind) \(status.inode)".utf8)]
        switch status.kind {
        case .directory:
            let inner = try directory.openDirectory(entry.name)
            for (inside, bytes) in try image(of: inner, below: name) { found[inside] = bytes }
        case .symlink: value.append(try directory.readSymlink(entry.name))
        case .regular:
            var bytes = [UInt8](repeating: 0, count: Int(status.size))
            var raw = bytes.mutableSpan
            _ = try directory.openFile(entry.name, .readOnly).read(into: &raw, at: 0)
            value.append(bytes)
        default: break
        }
        if status.kind != .symlink {
            let node = try directory.node(entry.name)
            for attribute in try node.attributeNames().sorted(by: { $0.lexicographicallyPrecedes($1) }) {
                value += [attribute, try node.attribute(attribute)]
            }
        }
        found[name] = value
    }
    return found
}
