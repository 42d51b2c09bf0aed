// The passphrases of other slots, which `keys rotate` asks for so that the slots keep the volume.

import CommandSupport
import HostSystem
import Keybag
import SodiumKit
import VolumeAccess
import VolumeFormat

/// The slots whose passphrases were typed, and those that shall go.
struct AskedSlots: Sendable {
    /// How often the passphrase of a slot may be typed.
    private static let attempts = 3

    private(set) var given: [SlotPassphrase] = []
    private var declined: Set<UInt32> = []

    /// Asks for the passphrase of each slot that would be removed, if `--ask-others` is given.
    init(
        _ arguments: Arguments, _ access: CheckedVolume, _ deviceKey: borrowing FoundDeviceKey,
        _ keys: borrowing VolumeKeys
    ) throws(CommandFailure) {
        guard arguments.has("ask-others") else { return }
        for slot in access.bag.slotsWithoutSecret(keys) where slot.kind == .passphrase {
            try ask(slot, access, deviceKey)
        }
    }

    private mutating func ask(
        _ slot: Keybag.SlotSummary, _ access: CheckedVolume, _ deviceKey: borrowing FoundDeviceKey
    ) throws(CommandFailure) {
        for _ in 0..<Self.attempts {
            let typed = try CredentialInput.secretOrNone(
                prompt: "Passphrase of slot \(Self.name(slot)), or Enter alone to remove it: ", option: "drop-slots")
            guard let typed else {
                declined.insert(slot.id)
                return
            }
            let copy: SecretBytes
            do throws(SodiumError) { copy = try typed.copy() } catch { throw ErrorMessages.memory(error) }
            do throws(CommandFailure) {
                let opened = try access.unlock(.passphrase(copy), deviceKey).slot
                if opened == slot.id {
                    given.append(SlotPassphrase(slot: slot.id, text: typed))
                    return
                }
                Output.error("this passphrase opens another slot (\(opened ?? 0)); try again")
            } catch {
                guard error.code == .authentication else { throw error }
                Output.error("this passphrase does not open the slot; try again")
            }
        }
        throw .init(.authentication, "\(access.path): slot \(Self.name(slot)) was not opened; run the command again")
    }

    /// Refuses if slots would be removed that nobody has allowed to.
    func requireAll(
        _ arguments: Arguments, _ access: CheckedVolume, _ keys: borrowing VolumeKeys,
        _ consequence: String = "Nothing was changed"
    ) throws(CommandFailure) {
        let dropped = access.bag.slotsWithoutSecret(keys, given).filter { !declined.contains($0.id) }
        guard !dropped.isEmpty, !arguments.has("drop-slots") else { return }
        throw .init(
            .usage,
            "\(access.path): these slots cannot get the new keys, because their secrets are not known: \(Self.names(dropped)); --ask-others asks for passphrases, --drop-slots removes the slots. \(consequence)"
        )
    }

    /// Slots by number and label, for a person.
    static func names(_ slots: [Keybag.SlotSummary]) -> String { slots.map(name).joined(separator: ", ") }

    private static func name(_ slot: Keybag.SlotSummary) -> String {
        "\(slot.id)" + (slot.label.name.map { " (\($0))" } ?? "")
    }
}
