// This machine's record of a volume, kept outside of it: the pinned keybag and the open epochs.

internal import SodiumKit
package import VolumeFormat

/// Why the bytes of a state file cannot be used.
package enum StateFileDefect: Error, Equatable, Sendable {
    /// There are none.
    case empty
    /// Bytes at the end are missing.
    case cutOff(length: Int, expected: Int)
    /// They are not what a program wrote.
    case damaged
    /// A test version wrote them, which was never released.
    case neverReleased
    /// A newer version of protectfs wrote them. `writer` is its name, if the bytes tell it.
    case newer(FormatError, writer: String?)
    /// They belong to another volume.
    case otherVolume(VolumeID)
}

/// The reasons to refuse a keybag that contradicts the state file.
package enum StateFileError: Error, Equatable, Sendable {
    /// The state file belongs to another volume.
    case otherVolume
    /// The keybag is older than one that this machine has seen (`--accept-keybag` overrides).
    case rolledBack(serial: UInt64, pinned: UInt64)
    /// The keybag's public key differs from the pinned one (`--accept-keybag` overrides).
    case otherPublicKey
    /// The keybag has the pinned public key but other generations of keys, which no rotation makes (`--accept-keybag` overrides).
    case otherKeys
    /// The keybag has the pinned serial but other contents (`--accept-keybag` overrides).
    case otherContents(serial: UInt64)
}

/// The state file of a volume, as a value. `StateFileLayout` has its bytes.
package struct StateFile: Sendable {
    /// The fields. The open epochs are changed here.
    package var layout: StateFileLayout

    /// Parses strictly. A hash that is right tells a newer state file from a damaged one.
    ///
    /// - Parameter volume: the volume to which the file must belong. Nil accepts any.
    package init(parsing bytes: [UInt8], of volume: VolumeID? = nil) throws(StateFileDefect) {
        try Self.checkWhole(bytes)
        let found = VolumeID(bytes.span, at: 16)
        if let volume, found != volume { throw .otherVolume(found) }
        do throws(FormatError) {
            layout = try StateFileLayout(parsing: bytes.span)
        } catch {
            guard error.isNewer else { throw .damaged }
            throw .newer(error, writer: StateFileLayout.writer(ofNewer: bytes.span))
        }
    }

    /// Checks what every version has.
    private static func checkWhole(_ bytes: [UInt8]) throws(StateFileDefect) {
        let span = bytes.span
        if bytes.isEmpty { throw .empty }
        let least = StateFileLayout.leastLength
        guard span.hasText("PFSSTAT1"), bytes.count <= StateFileLayout.maximumLength else {
            // A short file may have lost its end within the magic.
            throw "PFSSTAT".utf8.starts(with: bytes) ? .cutOff(length: bytes.count, expected: least) : .damaged
        }
        if bytes.count >= 10, span.littleEndian(at: 8, as: UInt16.self) == FormatVersion.neverReleased {
            throw .neverReleased
        }
        let length = bytes.count < 16 ? least : Int(span.littleEndian(at: 12, as: UInt32.self))
        if bytes.count < max(length, least), length <= StateFileLayout.maximumLength {
            throw .cutOff(length: bytes.count, expected: max(length, least))
        }
        guard length == bytes.count, Self.withHash(bytes) == bytes else { throw .damaged }
    }

    /// The bytes with the hash that they must have.
    package static func withHash(_ bytes: [UInt8]) -> [UInt8] {
        let content = bytes.dropLast(StateFileLayout.hashLength)
        let hash = hash256(bytes.span.extracting(0..<content.count))
        return content + (0..<StateFileLayout.hashLength).map { hash[$0] }
    }

    /// A state that pins `bag`, which has been unlocked.
    ///
    /// - Parameter toleratesEverything: true if the volume is not new and had no state file. Crash damage is then tolerated
    ///   until a complete check.
    package init(pinning bag: Keybag, toleratesEverything: Bool) {
        layout = StateFileLayout(
            volumeID: bag.volumeID, serial: bag.serial, publicKey: bag.publicKey, unlockMAC: bag.unlockMAC,
            toleratesEverything: toleratesEverything)
        layout.keys = keys(of: bag, acceptingKeybag: false)
    }

    /// A state for a volume whose keybag has not been verified here. It pins nothing, and tolerates crash damage.
    ///
    /// - Parameter others: the states of other stores of the volume on this machine. Their files may be in this one, so its
    ///   epochs begin above theirs, unless no number would be left.
    package init(unpinned volumeID: VolumeID, above others: [StateFile] = []) {
        let drawn = others.map(\.layout.highestEpoch).filter { $0 < Epoch.largest }
        layout = StateFileLayout(unpinned: volumeID, toleratesEverything: true, highestEpoch: drawn.max() ?? 0)
    }

    /// The bytes to write, with this program as the writer.
    package func serialized() -> [UInt8] {
        var layout = layout
        layout.writer = ProgramVersion.writer
        return Self.withHash(layout.serialized())
    }

    /// Whether this program may change the file. A newer one may have set a feature that forbids it.
    package var isWritable: Bool { layout.readOnlyCompatible == 0 }

    /// Draws an epoch, and enters it as open and as the highest. Nil if no number is left.
    ///
    /// - Parameters:
    ///   - highest: another number that the epoch must be above.
    ///   - seconds: the time now, in seconds since 1970.
    package mutating func drawEpoch(above highest: UInt32 = 0, at seconds: Int64) -> UInt32? {
        guard let drawn = Epoch.next(after: max(highest, layout.highestEpoch), at: seconds) else { return nil }
        layout.openEpochs.append(drawn)
        return drawn
    }

    /// The relation of a keybag to the pinned one.
    package enum Outcome: Sendable, Equatable {
        /// There is no state file, or it pins nothing, as on a new machine. Every keybag is accepted, and nothing is proven.
        case unpinned
        /// The keybag is the pinned one.
        case current
        /// The keybag is newer than the pinned one. It is pinned after an unlock.
        case newer
        /// The keybag would have been refused, but the user accepted it. It is pinned as it is.
        case accepted
    }

    /// Whether the bytes of a keybag that this program does not understand have the serial of the pinned one, but not its second
    /// MAC, if both are where this version has them. Then they are not the keybag that this machine has seen.
    package func contradicts(keybag bytes: [UInt8]) -> Bool {
        guard layout.isPinned, bytes.count >= 96, bytes.span.littleEndian(at: 32) == layout.serial else { return false }
        return !haveSameBytes(bytes.span.inline(at: bytes.count - 32), layout.unlockMAC)
    }

    /// Compares `bag` with the keybag that `state` pins.
    ///
    /// - Parameter acceptingKeybag: `--accept-keybag`.
    package static func check(
        _ bag: Keybag, against state: StateFile?, acceptingKeybag: Bool = false
    ) throws(StateFileError) -> Outcome {
        guard let pinned = state?.layout else { return .unpinned }
        guard pinned.volumeID == bag.volumeID else { throw .otherVolume }
        guard pinned.isPinned else { return .unpinned }
        let refusal: StateFileError
        // An older keybag may have had another public key.
        if bag.serial < pinned.serial {
            refusal = .rolledBack(serial: bag.serial, pinned: pinned.serial)
        } else if !haveSameBytes(pinned.publicKey, bag.publicKey) {
            if bag.serial > pinned.serial, Self.vouches(pinned, for: bag) { return .newer }
            refusal = .otherPublicKey
        } else if let keys = pinned.keys, !Self.relation(keys, bag, { $0 == $1 }) {
            // A rotation renews class B with any other class. So this is an old slot or key in a keybag that somebody has made.
            refusal = .otherKeys
        } else if bag.serial > pinned.serial {
            return .newer
        } else if haveSameBytes(pinned.unlockMAC, bag.unlockMAC) {
            return .current
        } else {
            refusal = .otherContents(serial: bag.serial)
        }
        guard acceptingKeybag else { throw refusal }
        return .accepted
    }

    /// Whether what vouched for the pinned keys vouches for those of `bag`, and they are newer: each generation at least, and
    /// that of class B above, because every rotation renews it.
    private static func vouches(_ pinned: StateFileLayout, for bag: Keybag) -> Bool {
        guard let keys = pinned.keys, relation(keys, bag, { $0 <= $1 }) else { return false }
        let b = Int(ProtectionClass.completeUnlessOpen.rawValue)
        return keys.generations[b] < bag.generations[b] && bag.isVouched(by: keys.voucher)
    }

    /// Whether `holds` for the pinned generation and that of `bag`, of every class.
    private static func relation(
        _ keys: StateFileLayout.Keys, _ bag: Keybag, _ holds: (UInt16, UInt16) -> Bool
    ) -> Bool {
        let now = bag.generations
        return ProtectionClass.allCases.allSatisfy { holds(keys.generations[Int($0.rawValue)], now[Int($0.rawValue)]) }
    }

    /// What is pinned of the keys of `bag`. The voucher that was known stays, unless it has named the one of `bag` as its
    /// successor, or a person has accepted the keybag.
    private func keys(of bag: Keybag, acceptingKeybag: Bool) -> StateFileLayout.Keys {
        let none = InlineArray<32, UInt8>(repeating: 0)
        let known = layout.keys?.voucher ?? none
        let isKept = !acceptingKeybag && !known.span.isAllZero && !bag.isVouched(by: known)
        return .init(generations: bag.layout.generations, voucher: isKept ? known : bag.voucher ?? none)
    }

    /// Whether the public key of `bag` is the pinned one, which an unlock has verified.
    package func pins(publicKeyOf bag: Keybag) -> Bool {
        layout.isPinned && layout.volumeID == bag.volumeID && haveSameBytes(layout.publicKey, bag.publicKey)
    }

    /// Pins `bag`, which has been unlocked or made here. The open epochs stay.
    ///
    /// - Parameter acceptingKeybag: whether a person has accepted `bag` instead of the pinned one.
    /// - Throws: the errors of `check`, because without acceptance a pin never goes back.
    package mutating func pin(_ bag: Keybag, acceptingKeybag: Bool = false) throws(StateFileError) {
        _ = try Self.check(bag, against: self, acceptingKeybag: acceptingKeybag)
        layout.keys = keys(of: bag, acceptingKeybag: acceptingKeybag)
        layout.isPinned = true
        layout.serial = bag.serial
        layout.publicKey = bag.publicKey
        layout.unlockMAC = bag.unlockMAC
    }
}
