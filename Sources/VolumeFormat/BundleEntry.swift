// The entries of a slot's bundle: one key each, with its type and generation.

/// One key of a slot's bundle: 8 bytes that name it, then the key. Parsed and written in place, in locked memory.
package struct BundleEntry: Sendable, Hashable {
    /// The type of a key: a class number, or a number of its own. Entries of unknown types are kept.
    package struct KeyType: Sendable, Hashable {
        /// The number on disk.
        package let number: UInt8

        /// The type with this number.
        package init(number: UInt8) { self.number = number }

        /// A class key (B: the X25519 private key).
        package static func classKey(_ protectionClass: ProtectionClass) -> KeyType {
            KeyType(number: protectionClass.rawValue)
        }

        /// M.
        package static let metadata = KeyType(number: 16)
        /// U.
        package static let unlockAuthentication = KeyType(number: 17)
        /// The key from which later features derive theirs.
        package static let spare = KeyType(number: 18)

        /// The types of a new volume's bundle, in this order. Every bundle but the device's has a key of each.
        package static let all: [KeyType] = [
            classKey(.complete), classKey(.completeUnlessOpen), classKey(.completeUntilFirstUserAuthentication),
            classKey(.none), classKey(.completeWhenUserInactive), metadata, unlockAuthentication, spare,
        ]
        /// The types that a device slot has a key of.
        package static let device: [KeyType] = [classKey(.none), metadata]

        /// The generation of a known type that is in use, by those in the keybag's header.
        package func generation(in generations: [UInt16]) -> UInt16 {
            switch self {
            case .metadata: generations[0]
            case .unlockAuthentication, .spare: 0
            default: generations[Int(number)]
            }
        }
    }

    /// Bytes of an entry.
    package static let length = 40
    /// Bytes before the key.
    package static let keyOffset = 8
    /// Flag bit 0: the entry is in the device's slot too.
    package static let device: UInt8 = 1

    /// The type of the key.
    package var type: KeyType
    /// Flags. Unknown ones are kept.
    package var flags: UInt8
    /// Which of the class's keys it is; a rotation makes the next one.
    package var generation: UInt16
    /// Four bytes without a meaning today, which are kept.
    package var kept: UInt32

    /// Names a key.
    package init(type: KeyType, flags: UInt8 = 0, generation: UInt16, kept: UInt32 = 0) {
        self.type = type
        self.flags = flags
        self.generation = generation
        self.kept = kept
    }

    /// Whether the entry is in the device's slot too.
    package var isInDeviceSlot: Bool { flags & Self.device != 0 }

    /// Parses the first 8 of the 40 bytes at `offset`.
    package init(parsing bytes: Span<UInt8>, at offset: Int = 0) throws(FormatError) {
        guard offset >= 0, bytes.count - offset >= Self.length else { throw .length }
        type = KeyType(number: bytes[offset])
        flags = bytes[offset + 1]
        generation = bytes.littleEndian(at: offset + 2)
        kept = bytes.littleEndian(at: offset + 4)
    }

    /// Writes the first 8 bytes at `offset`. The caller writes the key.
    package func store(into bytes: inout MutableSpan<UInt8>, at offset: Int) {
        bytes.storeLittleEndian(type.number, at: offset)
        bytes.storeLittleEndian(flags, at: offset + 1)
        bytes.storeLittleEndian(generation, at: offset + 2)
        bytes.storeLittleEndian(kept, at: offset + 4)
    }
}
