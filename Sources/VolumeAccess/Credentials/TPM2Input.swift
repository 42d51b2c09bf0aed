// Opens a volume with the TPM of the machine, and makes the TPM's part of a new slot. A PIN comes as a passphrase does.

import CLibrary
package import CommandSupport
import HostSystem
import Keybag
package import SodiumKit
package import VolumeFormat

/// The work of `--tpm2`.
package enum TPM2Input {
    /// Slots that are tried. A keybag that nothing has verified can have more.
    private static let mostSlots = 8

    /// The TPM that the options name.
    private static func program(_ arguments: Arguments) throws(CommandFailure) -> TPM2Program {
        let device = try arguments.text("tpm2-device") ?? Option.usualTPM2
        guard TPM2Device.isName(device) else {
            throw .init(
                .usage,
                "--tpm2-device: \"\(HostPath(device))\" is neither device: nor swtpm:path= with the whole path of a device or a socket"
            )
        }
        return TPM2Program(device: device)
    }

    /// Refuses what has no meaning without `--tpm2`.
    static func checkDetails(_ arguments: Arguments) throws(CommandFailure) {
        guard !arguments.has("tpm2"), let detail = Option.tpm2Details.first(where: { arguments.has($0.name) }) else {
            return
        }
        throw .init(.usage, "--\(detail.name) has no meaning without --tpm2")
    }

    /// Whether a person types the PIN.
    static func isTyped(_ arguments: Arguments) -> Bool {
        arguments.has("tpm2") && !arguments.has("tpm2-pin-file") && !arguments.has("tpm2-pin-command")
    }

    /// What the TPM gives for one of the keybag's slots.
    static func credential(_ arguments: Arguments, _ bag: Keybag) throws(CommandFailure) -> Credential {
        let program = try program(arguments)
        let slots = bag.slots.compactMap { slot in slot.tpm2.map { (slot.id, $0) } }.prefix(mostSlots)
        guard !slots.isEmpty else {
            throw .init(
                .authentication,
                "no slot of the volume is for a TPM; use a passphrase or the recovery code, or add one with protectfs slot add --tpm2"
            )
        }
        try checkPIN(arguments)
        var pin: SecretBytes?
        var failure: CommandFailure?
        // Nobody is asked for a PIN if a slot without one opens.
        for (number, slot) in slots.filter({ !$0.1.hasPIN }) + slots.filter(\.1.hasPIN) {
            if slot.hasPIN, pin == nil {
                pin = try givenPIN(arguments)
                if pin == nil { pin = try askedPIN() }
            }
            let auth = try hashed(pin, slot)
            var sealed = try key()
            if let refusal = try program.unseal(slot, auth: authValue(auth), into: &sealed) {
                // A slot of another machine's TPM says less than one of this machine.
                if failure == nil || refusal.failure != .otherTPM {
                    failure = Self.failure(refusal, program, slot: number, slot)
                }
                if [.noDevice, .wrongPIN, .lockout].contains(refusal.failure) { break }
                continue
            }
            return .tpm2(try material(sealed, auth))
        }
        throw failure ?? .init(.authentication, "no slot of the volume opens with the TPM")
    }

    /// A new slot's part of the TPM, and the slot's material.
    package struct Made: ~Copyable {
        /// What the slot says of the TPM.
        package let slot: SlotTPM2
        /// What opens the slot.
        package let material: SecretBytes
        /// What the person should know of the slot.
        package let warning: String?
    }

    /// Seals a new secret in the TPM, and tries whether the TPM gives it back.
    package static func make(_ arguments: Arguments) throws(CommandFailure) -> Made {
        let program = try program(arguments)
        let pcrs = try pcrs(arguments)
        var pin = try givenPIN(arguments)
        if pin == nil, arguments.has("pin") {
            pin = try CredentialInput.twice(prompt: "New PIN for the TPM: ", option: "tpm2-pin-file", what: "PIN")
        }
        let hasPIN = pin != nil
        let salt: InlineArray<16, UInt8> = randomInlineBytes()
        var auth: TPM2PIN?
        switch pin {
        case .some(let pin): auth = try keybag { () throws(KeybagError) in try TPM2PIN(pin, salt: salt) }
        case .none: auth = nil
        }
        let secret = try keybag { () throws(KeybagError) in try TPM2PIN.newSecret() }
        var again = try key()
        let sealed: TPM2Program.Sealed
        switch try program.seal(secret, pcrs: pcrs, auth: authValue(auth)) {
        case .success(let done): sealed = done
        case .failure(let refusal): throw failure(refusal, program, slot: nil, nil)
        }
        guard let slot = SlotTPM2(hasPIN: hasPIN, pcrs: pcrs, pinSalt: salt, answer: sealed.answer) else {
            throw .init(.failure, "the TPM's answer is too large for a slot; nothing was changed")
        }
        if let refusal = try program.unseal(slot, auth: authValue(auth), into: &again) {
            let reason = failure(refusal, program, slot: nil, slot).message
            throw .init(.failure, "the TPM does not give back what it has sealed (\(reason)); nothing was changed")
        }
        guard secret.withBytes({ one in again.withBytes { other in constantTimeEqual(one, other) } }) else {
            throw .init(.failure, "the TPM gives back something else than it has sealed; nothing was changed")
        }
        return Made(slot: slot, material: try material(secret, auth), warning: warning(slot, sealed))
    }

    // MARK: PIN

    private static func checkPIN(_ arguments: Arguments) throws(CommandFailure) {
        if arguments.has("tpm2-pin-file"), arguments.has("tpm2-pin-command") {
            throw .init(.usage, "--tpm2-pin-file and --tpm2-pin-command cannot be used together")
        }
    }

    private static func givenPIN(_ arguments: Arguments) throws(CommandFailure) -> SecretBytes? {
        try checkPIN(arguments)
        if let path = arguments.path("tpm2-pin-file") {
            return try CredentialInput.line(ofFile: path, option: "tpm2-pin-file")
        }
        guard let command = arguments.path("tpm2-pin-command") else { return nil }
        return try CredentialInput.line(printedBy: command, option: "tpm2-pin-command")
    }

    private static func askedPIN() throws(CommandFailure) -> SecretBytes {
        try CredentialInput.secret(prompt: "PIN of the TPM: ", option: "tpm2-pin-file", what: "PIN")
    }

    private static func keybag<Result: ~Copyable>(
        _ body: () throws(KeybagError) -> Result
    ) throws(CommandFailure) -> Result {
        do throws(KeybagError) { return try body() } catch { throw ErrorMessages.keybag(error, HostPath("")) }
    }

    /// The hash of the PIN for one slot. Nil if the slot has none.
    private static func hashed(_ pin: borrowing SecretBytes?, _ slot: SlotTPM2) throws(CommandFailure) -> TPM2PIN? {
        guard slot.hasPIN else { return nil }
        switch pin {
        case .some(let pin):
            return try keybag { () throws(KeybagError) in try TPM2PIN(pin, salt: slot.pinSalt) }
        case .none: return nil
        }
    }

    private static func authValue(_ pin: borrowing TPM2PIN?) throws(CommandFailure) -> SecretKey? {
        switch pin {
        case .some(let pin): try keybag { () throws(KeybagError) in try pin.authValue() }
        case .none: nil
        }
    }

    private static func material(
        _ sealed: borrowing SecretKey, _ pin: borrowing TPM2PIN?
    ) throws(CommandFailure) -> SecretBytes {
        switch pin {
        case .some(let pin):
            let key = try keybag { () throws(KeybagError) in try pin.material(from: sealed) }
            return try copy(key)
        case .none: return try copy(sealed)
        }
    }

    /// A key of zeros, to be filled.
    private static func key() throws(CommandFailure) -> SecretKey {
        do throws(SodiumError) { return try SecretKey() } catch { throw ErrorMessages.memory(error) }
    }

    private static func copy(_ key: borrowing SecretKey) throws(CommandFailure) -> SecretBytes {
        do throws(SodiumError) {
            return try key.withBytes { bytes throws(SodiumError) in try SecretBytes(copying: bytes) }
        } catch {
            throw ErrorMessages.memory(error)
        }
    }

    // MARK: PCRs

    /// The default: the state of Secure Boot, and who may sign what starts.
    package static let usualPCRs = "7"

    private static func pcrs(_ arguments: Arguments) throws(CommandFailure) -> UInt32 {
        let text = try arguments.text("pcrs") ?? usualPCRs
        if text == "none" { return 0 }
        var result: UInt32 = 0
        for word in text.split(separator: ",", omittingEmptySubsequences: false) {
            guard let number = Int(word), word.allSatisfy(\.isNumber), number < SlotTPM2.pcrCount else {
                throw .init(
                    .usage,
                    "--pcrs: \"\(HostPath(text))\" is not a list of numbers from 0 to \(SlotTPM2.pcrCount - 1) with commas between them, nor the word none"
                )
            }
            result |= 1 << number
        }
        return result
    }

    // MARK: Messages

    private static func warning(_ slot: SlotTPM2, _ sealed: TPM2Program.Sealed) -> String? {
        if slot.hasPIN {
            return sealed.hasOpenCount
                ? "everyone who may use the TPM can reset its count of wrong PINs, and so try every PIN, because its lockout password is not set; the machine's administrator can set one (tpm2_changeauth -c lockout)"
                : nil
        }
        return slot.pcrs == 0
            ? "everyone who may use the TPM and has the device key opens the volume; --pin asks for a PIN too"
            : "someone who has the whole machine can open the volume; --pin asks for a PIN too"
    }

    private static func failure(
        _ refusal: TPM2Program.Refusal, _ program: TPM2Program, slot number: UInt32?, _ slot: SlotTPM2?
    ) -> CommandFailure {
        let other = "use a passphrase or the recovery code"
        let anew = "\(other), remove the slot (slot remove\(number.map { " --slot \($0)" } ?? "")), and add it anew"
        // Without PCRs there is no state to differ: the slot's conditions were changed.
        let kind = refusal.failure == .otherState && slot?.pcrs == 0 ? .damaged : refusal.failure
        switch kind {
        case .noDevice:
            return .init(
                .failure, "the TPM \(program.device) cannot be used: \(reason(refusal.number)); \(other) meanwhile")
        case .lockout:
            return .init(
                .authentication,
                "the TPM takes no PIN for now, because it has counted too many wrong ones; wait (many TPMs forgive one in ten minutes, some in two hours), or \(other)"
            )
        case .wrongPIN: return .init(.authentication, "\(ErrorMessages.wrongPIN); the TPM counts wrong ones")
        case .otherState:
            let pcrs = slot.map { $0.pcrNumbers.map { "\($0)" }.joined(last: "or") } ?? ""
            return .init(
                .authentication,
                "the TPM does not open the slot, because the machine has started in another way than when the slot was made (PCR \(pcrs)), as after an update of the firmware or a change of Secure Boot; \(anew) if you expect the change"
            )
        case .otherTPM:
            return .init(
                .authentication,
                "no slot is for this TPM: they belong to other machines, or the TPM was replaced or cleared; \(anew)")
        case .damaged:
            return .init(
                .authentication,
                "the TPM refuses what the slot says it has sealed, so the slot is damaged or was changed; \(other), and see protectfs keybag import"
            )
        case .ownerPassword:
            return .init(
                .failure,
                "the TPM makes no storage key, because its owner has set a password or disabled the owner hierarchy, and none is at handle 0x81000001; ask the owner for one there (tpm2_evictcontrol), or \(other)"
            )
        case .noBank:
            return .init(
                .unsupported,
                "the TPM has no SHA-256 values of these PCRs; enable them in the firmware, or use --pcrs none")
        case .misused:
            return .init(.unsupported, "the TPM helper is of another version than protectfs; install both together")
        case .failed:
            return .init(
                .failure,
                "the TPM reports error 0x\(String(refusal.number, radix: 16)) (tpm2_rc_decode explains it); try again, or \(other)"
            )
        }
    }

    private static func reason(_ code: UInt32) -> String {
        switch Int32(bitPattern: code) {
        case 0: "it does not answer, or libtss2-tcti-device (or libtss2-tcti-swtpm) is not installed"
        case ENOENT: "there is none, or it is disabled in the firmware"
        case EACCES, EPERM:
            "permission denied; only members of its group may use it (usermod -a -G tss USER, then log in again)"
        case let other: SystemError.reason(of: other)
        }
    }
}
