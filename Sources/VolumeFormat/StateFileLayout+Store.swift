// The store of a state file. A copy of a volume has its UUID, but must not use its state.

extension StateFileLayout {
    /// Distinguishes a store from its copies by the directory itself and its path.
    package struct Store: Sendable, Equatable {
        /// Bytes before the path.
        package static let fixedLength = 28
        /// The longest path, in bytes.
        package static let maximumPath = 4096

        /// The directory's inode number.
        package var inode: UInt64
        /// When the directory was made: seconds since 1970 and nanoseconds. 0 if the file system does not tell.
        package var born: (seconds: Int64, nanoseconds: UInt32)
        /// The file system's number if it never changes, or 0.
        package var fileSystem: UInt64
        /// The absolute path where it was seen last, without symbolic links.
        package var path: [UInt8]

        /// A store.
        package init(
            inode: UInt64, born: (seconds: Int64, nanoseconds: UInt32), fileSystem: UInt64, path: [UInt8]
        ) {
            self.inode = inode
            self.born = born
            self.fileSystem = fileSystem
            self.path = path
        }

        /// Whether it is the same directory, even if it has moved.
        package func isSameDirectory(as other: Store) -> Bool {
            inode == other.inode && born == other.born && fileSystem == other.fileSystem
        }

        /// Whether everything is the same, including the path.
        package static func == (one: Store, other: Store) -> Bool {
            one.isSameDirectory(as: other) && one.path == other.path
        }

        /// Parses the TLV's value.
        init(_ value: Span<UInt8>) throws(FormatError) {
            let length = value.count - Self.fixedLength
            guard (1...Self.maximumPath).contains(length) else { throw .inconsistent("store") }
            let path = value.extracting(Self.fixedLength...).copiedBytes()
            guard path.first == UInt8(ascii: "/"), !path.contains(0) else { throw .inconsistent("path of the store") }
            self.init(
                inode: value.littleEndian(at: 0),
                born: (
                    Int64(bitPattern: value.littleEndian(at: 8, as: UInt64.self)), value.littleEndian(at: 16)
                ),
                fileSystem: value.littleEndian(at: 20), path: path)
        }

        /// The TLV's value.
        var bytes: [UInt8] {
            var result = [UInt8](repeating: 0, count: Self.fixedLength + path.count)
            var bytes = result.mutableSpan
            bytes.storeLittleEndian(inode, at: 0)
            bytes.storeLittleEndian(UInt64(bitPattern: born.seconds), at: 8)
            bytes.storeLittleEndian(born.nanoseconds, at: 16)
            bytes.storeLittleEndian(fileSystem, at: 20)
            bytes.copy(path.span, to: Self.fixedLength)
            return result
        }
    }
}
