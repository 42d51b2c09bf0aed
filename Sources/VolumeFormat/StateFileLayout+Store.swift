// The store of a state file. A copy of a volume has its UUID, but must not use its state.

extension StateFileLayout {
    /// Distinguishes a store from its copies by the directory itself and its path.
    package struct Store: Sendable, Equatable {
        /// Bytes before the path.
        package static let fixedLength = 32
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

        /// Bytes in the state file.
        var length: Int { Self.fixedLength + path.count }

        init(_ bytes: Span<UInt8>, at offset: Int) throws(FormatError) {
            guard bytes.count >= offset + Self.fixedLength else { throw .length }
            let count = Int(bytes.littleEndian(at: offset + 28, as: UInt16.self))
            guard bytes.littleEndian(at: offset + 30, as: UInt16.self) == 0 else {
                throw .unsupported("reserved bytes")
            }
            guard (1...Self.maximumPath).contains(count), bytes.count >= offset + Self.fixedLength + count else {
                throw .length
            }
            let path = (0..<count).map { bytes.littleEndian(at: offset + Self.fixedLength + $0, as: UInt8.self) }
            guard path.first == UInt8(ascii: "/"), !path.contains(0) else { throw .unsupported("path of the store") }
            self.init(
                inode: bytes.littleEndian(at: offset),
                born: (
                    Int64(bitPattern: bytes.littleEndian(at: offset + 8, as: UInt64.self)),
                    bytes.littleEndian(at: offset + 16)
                ),
                fileSystem: bytes.littleEndian(at: offset + 20), path: path)
        }

        func store(into bytes: inout MutableSpan<UInt8>, at offset: Int) {
            bytes.storeLittleEndian(inode, at: offset)
            bytes.storeLittleEndian(UInt64(bitPattern: born.seconds), at: offset + 8)
            bytes.storeLittleEndian(born.nanoseconds, at: offset + 16)
            bytes.storeLittleEndian(fileSystem, at: offset + 20)
            bytes.storeLittleEndian(UInt16(path.count), at: offset + 28)
            bytes.copy(path.span, to: offset + Self.fixedLength)
        }
    }
}
