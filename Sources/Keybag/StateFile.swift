// This machine's record of a volume, kept outside of it: the pinned keybag and the open epochs.

package import VolumeFormat

/// The reasons to refuse a state file, or a keybag that contradicts it.
package enum StateFileError: Error, Equatable, Sendable {
    /// The state file cannot be parsed.
    case format(FormatError)
    /// The state file belongs to another volume.
    case otherVolume
    /// The keybag is older than one that this machine has seen (`--accept-keybag` overrides).
    case rolledBack(serial: UInt64, pinned: UInt64)
    /// The keybag's public key differs from the pinned one (`--accept-keybag` overrides).
    case otherPublicKey
    /// The keybag has the pinned serial but other contents (`--accept-keybag` overrides).
    case otherContents(serial: UInt64)
}

/// The state file of a volume, as a value. `StateFileLayout` has its bytes.
package struct StateFile: Sendable {
    /// The fields. The open epochs are changed here.
    package var layout: StateFileLayout

    /// Parses strictly.
    package init(parsing bytes: [UInt8]) throws(StateFileError) {
        do throws(FormatError) {
            layout = try StateFileLayout(parsing: bytes.span)
        } catch {
            throw .format(error)
        }
    }

    /// A state that pins `bag`, which has been unlocked.
    ///
    /// - Parameter toleratesEverything: true if the volume is not new and had no state file. Crash damage is then tolerated
    ///   until a complete check.
    package init(pinning bag: Keybag, toleratesEverything: Bool) {
        layout = StateFileLayout(
            volumeID: bag.volumeID, serial: bag.serial, publicKey: bag.publicKey, unlockMAC: bag.unlockMAC,
            toleratesEverything: toleratesEverything)
    }

    /// A state for a volume whose keybag has not been verified here. It pins nothing, and tolerates crash damage.
    package init(unpinned volumeID: VolumeID) {
        layout = StateFileLayout(unpinned: volumeID, toleratesEverything: true)
    }

    /// The bytes to write.
    package func serialized() -> [UInt8] { layout.serialized() }

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
        if !haveSameBytes(pinned.publicKey, bag.publicKey) {
            refusal = .otherPublicKey
        } else if bag.serial < pinned.serial {
            refusal = .rolledBack(serial: bag.serial, pinned: pinned.serial)
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
        layout.isPinned = true
        layout.serial = bag.serial
        layout.publicKey = bag.publicKey
        layout.unlockMAC = bag.unlockMAC
    }
}
