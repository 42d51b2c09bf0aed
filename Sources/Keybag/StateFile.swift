// What this machine remembers of a volume outside of it: the pinned keybag and the epochs that are open.

package import VolumeFormat

/// Why a state file, or a keybag beside it, is refused.
package enum StateFileError: Error, Equatable, Sendable {
    /// The state file cannot be understood.
    case format(FormatError)
    /// The state file is that of another volume.
    case otherVolume
    /// The keybag is older than one that this machine has seen (`--accept-keybag` overrides).
    case rolledBack(serial: UInt64, pinned: UInt64)
    /// The keybag has another public key than the one pinned (`--accept-keybag` overrides).
    case otherPublicKey
    /// The keybag has the pinned serial and other contents (`--accept-keybag` overrides).
    case otherContents(serial: UInt64)
}

/// The state file of a volume, as a value; `StateFileLayout` is its bytes.
package struct StateFile: Sendable {
    /// The fields; the open epochs are changed here.
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
    /// - Parameter toleratesEverything: true where there was none before on a volume that is not new: crash damage is
    ///   tolerated until a complete check.
    package init(pinning bag: Keybag, toleratesEverything: Bool) {
        layout = StateFileLayout(
            volumeID: bag.volumeID, serial: bag.serial, publicKey: bag.publicKey, unlockMAC: bag.unlockMAC,
            toleratesEverything: toleratesEverything)
    }

    /// A state of a volume of which no keybag has been verified here: it pins nothing, and tolerates crash damage.
    package init(unpinned volumeID: VolumeID) {
        layout = StateFileLayout(unpinned: volumeID, toleratesEverything: true)
    }

    /// The bytes to be written.
    package func serialized() -> [UInt8] { layout.serialized() }

    /// How a keybag stands to what is pinned.
    package enum Outcome: Sendable, Equatable {
        /// There is no state file, or it pins nothing: a new machine; everything is accepted, and nothing is proven.
        case unpinned
        /// The keybag is the one that is pinned.
        case current
        /// The keybag is newer than the one that is pinned; to be pinned when it has been unlocked.
        case newer
        /// The keybag would have been refused, and was accepted because the user said so; to be pinned as it is.
        case accepted
    }

    /// Compares `bag` with what `state` pins.
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

    /// Whether the public key of `bag` is the one that is pinned, and so was verified by an unlock once.
    package func pins(publicKeyOf bag: Keybag) -> Bool {
        layout.isPinned && layout.volumeID == bag.volumeID && haveSameBytes(layout.publicKey, bag.publicKey)
    }

    /// Pins `bag`, which has been unlocked or made here; the open epochs stay.
    ///
    /// - Parameter acceptingKeybag: whether a person has accepted `bag` instead of the one pinned.
    /// - Throws: what `check` throws: by itself a pin never goes down.
    package mutating func pin(_ bag: Keybag, acceptingKeybag: Bool = false) throws(StateFileError) {
        _ = try Self.check(bag, against: self, acceptingKeybag: acceptingKeybag)
        layout.isPinned = true
        layout.serial = bag.serial
        layout.publicKey = bag.publicKey
        layout.unlockMAC = bag.unlockMAC
    }
}
