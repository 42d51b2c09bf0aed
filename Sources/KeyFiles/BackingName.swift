// The fixed names of the format in the backing store, and random temporary names.

package import BackingStore
internal import SodiumKit
internal import VolumeFormat

/// Backing names that never change, and fresh temporary ones.
package enum BackingName {
    /// A directory's record.
    package static let record = fixed(ReservedName.directoryRecord)
    /// The current keybag.
    package static let keybag = fixed(ReservedName.keybag)
    /// The keybag from before the last change.
    package static let previousKeybag = fixed(ReservedName.previousKeybag)
    /// A keybag that is being written.
    package static let temporaryKeybag = known(ReservedName.temporaryPrefix.bytes + Array("keybag".utf8))
    /// The directory for objects that a check has moved out of the way.
    package static let lostAndFound = fixed(ReservedName.lostAndFound)
    /// The file system's own directory for lost objects, if the volume is the root of a file system.
    package static let storesLostAndFound = fixed(ReservedName.storesLostAndFound)
    /// The directory of overflow objects.
    package static let overflow = fixed(ReservedName.overflow)

    /// A random name for an object that is not complete yet.
    package static func temporary() -> EntryName {
        let random: InlineArray<16, UInt8> = pooledBytes()
        var text = InlineArray<64, UInt8>(repeating: 0)
        var room = text.mutableSpan
        let prefix = ReservedName.temporaryPrefix
        room.copyText(prefix, to: 0)
        let length = Base64URL.encode(random.span, into: &room, at: prefix.utf8CodeUnitCount)
        return known(text.span.extracting(0..<(prefix.utf8CodeUnitCount + length)))
    }

    private static func fixed(_ text: StaticString) -> EntryName { known(text.bytes) }

    /// A name that this program has built from reserved text and base64url. It is always one component.
    package static func known(_ bytes: [UInt8]) -> EntryName { known(bytes.span) }

    private static func known(_ bytes: Span<UInt8>) -> EntryName {
        guard let name = EntryName(bytes) else { preconditionFailure("a reserved name is one component") }
        return name
    }
}
