// The bytes of a list of changed files, beside the state file (docs/judge/volume-format.md, section 4.2).

internal import SodiumKit
package import VolumeFormat

/// What is fixed in a list: whose it is, and when it began.
package struct ChangedListHeader: Sendable, Equatable {
    /// Whose files the list has.
    package let volume: VolumeID
    /// The epoch in which the files were changed.
    package let epoch: UInt32
    /// No file of the epoch was made before, in nanoseconds since 1970.
    package let began: Int64

    /// A header.
    package init(volume: VolumeID, epoch: UInt32, began: Int64) {
        self.volume = volume
        self.epoch = epoch
        self.began = began
    }
}

/// A list of changed files. Each entry is bound to those before it, so one that is torn, changed or moved is recognised.
package struct ChangedList: Sendable {
    private static let headerLength = 128
    private static let hashOffset = 96
    private static let entryLength = 16
    /// The entries that a list has room for. The last one is kept for the mark "all files".
    private static let room = 4096
    /// The length of a list in bytes. It never changes, so that an entry is durable without a change of the length.
    package static let length = headerLength + room * entryLength
    /// The entry that means all files. No object has this inode number.
    private static let all: UInt64 = 0

    /// Whose it is.
    package let header: ChangedListHeader
    private let headerHash: InlineArray<32, UInt8>
    private var lastCheck: UInt64 = 0
    /// The number of entries.
    private(set) var count = 0
    /// Whether more files were changed than the list can name.
    package private(set) var isAll = false

    /// An empty list.
    package init(_ header: ChangedListHeader) {
        self.header = header
        headerHash = hash256(Self.fields(header).span)
    }

    /// The bytes of an empty list.
    package var emptyBytes: [UInt8] {
        var bytes = Self.fields(header)
        for index in 0..<32 { bytes.append(headerHash[index]) }
        return bytes + [UInt8](repeating: 0, count: Self.room * Self.entryLength)
    }

    /// The files that can still be named.
    package var left: Int { isAll ? 0 : Self.room - 1 - count }

    /// Appends files, or the mark "all files" if there is no room for them.
    ///
    /// - Returns: the bytes, and their place in the file.
    package mutating func append(_ inodes: [UInt64]) -> (bytes: [UInt8], offset: Int) {
        add(inodes.count <= left ? inodes : [Self.all])
    }

    /// Appends the mark "all files".
    package mutating func markAll() -> (bytes: [UInt8], offset: Int) { add([Self.all]) }

    private mutating func add(_ added: [UInt64]) -> (bytes: [UInt8], offset: Int) {
        let offset = Self.headerLength + count * Self.entryLength
        if isAll { return ([], offset) }
        var bytes = [UInt8](repeating: 0, count: added.count * Self.entryLength)
        var raw = bytes.mutableSpan
        for (index, inode) in added.enumerated() {
            take(inode)
            raw.storeLittleEndian(inode, at: index * Self.entryLength)
            raw.storeLittleEndian(lastCheck, at: index * Self.entryLength + 8)
        }
        return (bytes, offset)
    }

    private mutating func take(_ inode: UInt64) {
        lastCheck = check(inode)
        count += 1
        if inode == Self.all { isAll = true }
    }

    /// What an entry behind those so far must carry.
    private func check(_ inode: UInt64) -> UInt64 {
        var bytes = [UInt8](repeating: 0, count: 16)
        var raw = bytes.mutableSpan
        raw.storeLittleEndian(lastCheck, at: 0)
        raw.storeLittleEndian(inode, at: 8)
        return hash256(headerHash.span, bytes.span).span.littleEndian(at: 0)
    }

    /// The inode numbers in a list of `volume` and `epoch`. Nil if it is another one's, newer or damaged.
    package static func parse(_ bytes: [UInt8], volume: VolumeID, epoch: UInt32) -> (ChangedList, Set<UInt64>)? {
        let span = bytes.span
        guard span.count == length else { return nil }
        let began = Int64(bitPattern: span.littleEndian(at: 40))
        var list = ChangedList(ChangedListHeader(volume: volume, epoch: epoch, began: began))
        // All other fields are those that this version writes.
        let start = list.emptyBytes
        guard span.extracting(0..<headerLength).hasSameBytes(as: start.span.extracting(0..<headerLength)) else {
            return nil
        }
        var found: Set<UInt64> = []
        for offset in stride(from: headerLength, to: length, by: entryLength) {
            let entry = span.extracting(offset..<offset + entryLength)
            if entry.isAllZero {
                return span.extracting(offset..<length).isAllZero ? (list, found) : nil
            }
            let inode: UInt64 = entry.littleEndian(at: 0)
            guard !list.isAll, list.check(inode) == entry.littleEndian(at: 8) else { return nil }
            list.take(inode)
            found.insert(inode)
        }
        return (list, found)
    }

    private static func fields(_ header: ChangedListHeader) -> [UInt8] {
        var bytes = [UInt8](repeating: 0, count: hashOffset)
        bytes.replaceSubrange(0..<8, with: "PFSCHNG1".utf8)
        var raw = bytes.mutableSpan
        raw.storeLittleEndian(FormatVersion.current, at: 8)
        raw.storeLittleEndian(UInt32(length), at: 12)
        header.volume.store(into: &raw, at: 16)
        raw.storeLittleEndian(header.epoch, at: 32)
        raw.storeLittleEndian(UInt64(bitPattern: header.began), at: 40)
        return bytes
    }
}
