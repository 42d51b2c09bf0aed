// Objects as a newer version would make them: their MACs and tags are right, and something in them is not known.

import BackingStore
import HostSystem
import Keybag
import SodiumKit
import Testing
import VolumeFormat

@testable import ProtectedVolume

/// Turns objects of a test volume into those of a newer version.
struct Future {
    let it: TestVolume

    private func read(_ file: BackingFile, _ count: Int, at offset: UInt64 = 0) throws -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: count)
        var raw = bytes.mutableSpan
        #expect(try file.read(into: &raw, at: offset) == count)
        return bytes
    }

    private func file(_ path: String) throws -> BackingFile {
        let (directory, entry) = try it.backing(path)
        return try directory.openFile(entry, .readWrite)
    }

    /// Changes a header's bytes and makes its MAC anew. Block 0 does not fit any more.
    func header(_ path: String, at offset: Int = 3, _ value: UInt8 = 9) throws {
        let file = try file(path)
        var bytes = try read(file, FileHeader.length)
        bytes[offset] = value
        try write(header: bytes, to: file)
    }

    private func write(header bytes: [UInt8], to file: BackingFile) throws {
        var bytes = bytes
        let mac = it.volume.keys.metadata.headerMAC(over: bytes.span.extracting(0..<112))
        for index in 0..<16 { bytes[112 + index] = mac[index] }
        try file.write(bytes.span, at: 0)
    }

    /// Sets a flag in a header, and encrypts block 0 again.
    func flag(_ path: String, _ flags: UInt16 = 0x100) throws {
        try rewrite(path, block: 0) { header, _ in header.flags.formUnion(FileFlags(rawValue: flags)) }
        let file = try file(path)
        try write(header: read(file, FileHeader.length), to: file)
    }

    /// Sets an unknown flag in the field of a block, and encrypts the block again.
    func block(_ path: String, _ index: UInt64) throws {
        try rewrite(path, block: index) { _, field in field |= 0x80 << 16 }
    }

    private func rewrite(
        _ path: String, block index: UInt64, _ change: (inout FileHeader, inout UInt64) -> Void
    ) throws {
        let node = try it.node(path)
        let content = try it.volume.open(node, writable: false)
        defer { it.volume.release(node, writable: false) }
        let file = try file(path)
        let offset = PageGeometry.offset(ofPage: index)
        var page = try read(file, PageGeometry.pageSize, at: offset)
        let geometry = content.geometry
        var plain = [UInt8](repeating: 0, count: PageGeometry.pageSize)
        var codec = PageCodec(geometry: geometry, keys: content.fileKeys, header: content.header)
        var output = plain.mutableSpan
        guard case .block(let known) = try codec.open(page.span, block: index, into: &output) else {
            Issue.record("the page is zero")
            return
        }
        let place = BlockPlace(
            nonce: geometry.nonceRange(ofBlock: index).lowerBound, text: geometry.ciphertextRange(ofBlock: index),
            tag: geometry.tagRange.lowerBound)
        let start = geometry.fieldRange(ofBlock: index).lowerBound
        var header = content.header
        var field: UInt64 = page.span.littleEndian(at: start)
        change(&header, &field)
        var raw = page.mutableSpan
        if index == 0 { header.store(into: &raw) }
        raw.storeLittleEndian(field, at: start)
        var data = InlineArray<68, UInt8>(repeating: 0)
        var dataBytes = data.mutableSpan
        AssociatedData.beginBlocks(header: header, into: &dataBytes)
        let length = AssociatedData.completeBlock(index: index, field: field, into: &dataBytes)
        let cipher = try #require(
            try content.fileKeys.cipher(epoch: known.epoch, extent: PageGeometry.extent(ofPage: index)))
        let text = Array(plain.prefix(geometry.capacity(ofBlock: index)))
        // The nonce is used again, for a plaintext that is the same.
        cipher.seal(text.span, into: &raw, place, associatedData: data.span.extracting(0..<length))
        try file.write(page.span, at: offset)
    }

    /// Changes a directory's record and makes its MAC anew. The record gets longer by `more` bytes.
    func record(_ path: String, at offset: Int = 3, _ value: UInt8 = 9, more: Int = 0) throws {
        let directory = try it.volume.directory(it.node(path))
        let target = try directory.readSymlink(BackingName.record)
        try directory.unlink(BackingName.record)
        try directory.createSymlink(BackingName.record, target: record(target, at: offset, value, more: more))
    }

    /// The same for the target of a record.
    func record(_ target: [UInt8], at offset: Int = 3, _ value: UInt8 = 9, more: Int = 0) throws -> [UInt8] {
        let decoded = Base64URL.decode(target.span)
        var bytes = try #require(decoded)
        bytes.removeLast(16)
        bytes[offset] = value
        bytes += [UInt8](repeating: 5, count: more)
        let mac = mac128(it.volume.keys.metadata.directoryRecord, bytes.span)
        return Base64URL.encode((bytes + (0..<16).map { mac[$0] }).span)
    }

    /// Gives a symlink's target another version.
    func symlink(_ path: String) throws {
        let (directory, entry) = try it.backing(path)
        try directory.unlink(entry)
        let sealed = seal(Array("target".utf8), it.volume.keys.metadata.symlink, [])
        try directory.createSymlink(entry, target: Base64URL.encode(sealed.span))
    }

    /// Gives an attribute's value another version.
    func attribute(_ path: String, _ name: String) throws {
        let node = try it.node(path)
        let id = try it.volume.objectID(of: node)
        let plain = Array(name.utf8)
        let stored = try it.volume.names.encodeAttribute(plain, of: id)
        let data = NameCipher.bytes(of: id) + plain
        try it.volume.backing(node).setAttribute(
            stored, seal([1, 2, 3], it.volume.keys.metadata.attributeValue, data))
    }

    private func seal(_ content: [UInt8], _ key: borrowing SecretKey, _ context: [UInt8]) -> [UInt8] {
        let nonce = [UInt8](repeating: 8, count: XChaCha.nonceLength)
        var sealed = [UInt8](repeating: 0, count: content.count + XChaCha.tagLength)
        var raw = sealed.mutableSpan
        let data = [9] + context
        XChaCha.seal(content.span, key: key, nonce: nonce.span, associatedData: data.span, into: &raw)
        return [9] + nonce + sealed
    }
}
