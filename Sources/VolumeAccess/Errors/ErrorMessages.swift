// The messages for errors of a volume and its keys: what went wrong, and what to do.

import BackingStore
import CLibrary
package import CommandSupport
package import HostSystem
package import KeyFiles
package import Keybag
package import SodiumKit
package import VolumeFormat

extension ErrorMessages {
    /// Also the daemon's answer.
    static let wrongPassphrase = "wrong passphrase"
    /// A PIN that a TPM has refused.
    static let wrongPIN = "wrong PIN"
    private static let (wrongCode, invalidCode) = ("wrong recovery code", "invalid recovery code")

    /// The beginnings of messages by which a command knows that a person may have mistyped.
    static let mistyped = [wrongPassphrase, wrongCode, invalidCode, wrongPIN]

    /// A word that is not a protection class.
    package static func unknownClass(_ word: HostPath) -> CommandFailure {
        let names = ProtectionClass.allCases.map(\.shortName).joined(last: "or")
        let letters = ProtectionClass.allCases.map { String($0.letter) }.joined(separator: ", ")
        return .init(.usage, "unknown class \"\(word)\"; use \(names) (or \(letters))")
    }

    /// A primitive that cannot be trusted with data.
    package static func primitive(_ error: SelfTestFailure) -> CommandFailure {
        switch error {
        case .memory(let error): memory(error)
        case .wrong(let primitive):
            .init(
                .unsupported,
                "\(primitive) gives a wrong result on this machine, which would destroy data; nothing was done. Reinstall the library, and test the machine's memory and processor"
            )
        }
    }

    /// An errno of the backing store from an operation on `path`.
    package static func store(_ error: Errno, _ path: HostPath) -> CommandFailure {
        switch error {
        case .EROFS:
            .init(.failure, "\(path): the backing file system is read-only; mount with -o ro, or make it writable")
        case .ENOSPC: .init(.failure, "\(path): no space left on the backing file system; nothing was changed")
        case .EDQUOT: .init(.failure, "\(path): the disk quota is used up; nothing was changed")
        case .EACCES, .EPERM:
            .init(.failure, "\(path): permission denied; you need read and write permission for the volume's directory")
        case .ENOENT: .init(.volume, "\(path): no such directory")
        case .ENOTDIR: .init(.volume, "\(path): not a directory, so not a volume")
        case .EAGAIN:
            .init(
                .busy,
                "\(path): the volume is in use by another mount or command; unmount it first (protectfs status shows mounts)"
            )
        case .EOPNOTSUPP, .ENOSYS:
            .init(
                .unsupported,
                "\(path): this file system does not support volumes, which need symbolic links, sparse files and extended attributes; use another one"
            )
        default: .init(.failure, "\(path): \(error)")
        }
    }

    /// A keybag that cannot be read, opened or changed.
    ///
    /// - Parameter isContradicted: whether this machine has seen another keybag with its serial.
    package static func keybag(_ error: KeybagError, _ volume: HostPath, isContradicted: Bool = false) -> CommandFailure
    {
        switch error {
        case .format(.version(FormatVersion.neverReleased)):
            .init(
                .unsupported,
                "\(volume): made with format \(FormatVersion.neverReleased), a test format that was never released; this program reads format \(FormatVersion.current)"
            )
        case .newer(let error, let writer):
            .init(
                .unsupported,
                "\(volume): made by a newer version of protectfs (\(reason(error))\(says(writer))); use that version"
                    + (isContradicted || writer.map(WriterName.isThisVersionOrEarlier) ?? false
                        ? orDamaged(volume) : ""))
        case .readOnly(let features, let writer): .init(.unsupported, readOnly(features, writer, volume))
        case .format(let error):
            .init(
                .volume,
                "\(volume): the keybag is damaged (\(reason(error))); \(KeybagAdvice.restoring(volume))"
            )
        case .deviceMACMismatch, .unlockMACMismatch, .publicKeyMismatch, .bundleMismatch, .malformedBundle:
            .init(
                .volume,
                "\(volume): the keybag is damaged, has been changed, or belongs to another volume; \(KeybagAdvice.restoring(volume))"
            )
        case .wrongDeviceKey:
            .init(
                .authentication,
                "it does not open this keybag: it belongs to another volume, or to another keybag of this one, because recovery use makes a new key; or the keybag is damaged"
            )
        case .noDeviceSlot:
            .init(.authentication, "this volume has no device key; use a passphrase or the recovery code")
        case .newerDeviceSlot(let slot): .init(.unsupported, newerDeviceSlot(slot, volume))
        case .wrongPassphrase: .init(.authentication, wrongPassphrase)
        case .deviceKeyNeeded:
            .init(
                .authentication,
                "the passphrase works only together with the device key, which is not on this machine; \(withoutDeviceKey(volume))"
            )
        case .noPassphraseSlot:
            .init(.authentication, "the volume has no passphrase; use the recovery code (--recovery-file)")
        case .recoveryCodeTypo:
            .init(
                .authentication,
                "\(invalidCode); check it for typing errors (it has 30 letters and digits in 6 groups)")
        case .wrongRecoveryCode:
            .init(
                .authentication,
                "\(wrongCode); give the one that was valid when this keybag was written (protectfs slot list \(volume.word) shows when each was made)"
            )
        case .recipientKeyTypo:
            .init(
                .authentication,
                "not a recipient's key, or damaged: it must be one line as protectfs recipient new and recipient show print it"
            )
        case .wrongRecipientKey:
            .init(
                .authentication,
                "no slot of the volume is for this recipient; protectfs slot list --json \(volume.word) shows the public keys, and protectfs recipient show FILE that of a file"
            )
        case .unusableRecipient:
            .init(.usage, "nothing can be encrypted to this public key; use one that protectfs recipient new has made")
        case .wrongTPM2:
            .init(
                .authentication,
                "what the TPM gave opens no slot of the volume; the slot was changed: use a passphrase, remove the slot, and add it anew"
            )
        case .tpm2NeedsDeviceKey:
            .init(
                .authentication,
                "the TPM works only together with the device key, which is not on this machine; \(withoutDeviceKey(volume))"
            )
        case .unusablePIN: .init(.authentication, "a PIN must have 1 to \(TPM2PIN.maximumLength) bytes")
        case .wrongSecurityKey:
            .init(
                .authentication,
                "what the security key gave opens no slot of the volume: the slot has been changed, the key has been reset, or it is another one"
            )
        case .unusablePassphrase:
            .init(.authentication, "a passphrase must have 1 to \(Credential.maximumLength) bytes")
        case .passwordHashRefused(let passes, let memory):
            .init(
                .unsupported,
                "the password hash of the passphrase takes \(passes) passes over \(memory >> 20) MiB, more than protectfs accepts here; use the recovery code (--recovery-file)"
            )
        case .passwordHashesRefused(let slots):
            .init(
                .volume,
                "checking \(slots) portable passphrases would take too long, and without the device key protectfs cannot tell whether the keybag is genuine; give the device key (--device-key), or use the recovery code (--recovery-file)"
            )
        case .noSuchSlot(let slot): .init(.usage, "no such slot: \(slot); protectfs slot list shows the slots")
        case .notAPassphraseSlot(let slot):
            .init(.usage, "slot \(slot) does not hold a passphrase; protectfs slot list shows the slots")
        case .deviceSlot(let slot):
            .init(
                .usage,
                "slot \(slot) is the device key's, which mounting needs; recovery use replaces it, and erase destroys it"
            )
        case .newerSlot(let slot):
            .init(
                .unsupported,
                "slot \(slot) was made by a newer version of protectfs; use that version, or remove the slot with protectfs slot remove --newer"
            )
        case .unusableLabel:
            .init(
                .usage,
                "a label must have 1 to \(SlotLabel.maximumLength) bytes of UTF-8 text without control characters")
        case .lastPassphrase: .init(.usage, "this is the only passphrase; add another one first")
        case .lastPortableSlot:
            .init(
                .usage,
                "nothing else opens the volume without the device key; add a recovery code or a portable passphrase first"
            )
        case .full:
            .init(
                .failure,
                "\(volume): the keybag has no room for more; remove a slot, or take former keys out of it (protectfs keys retire)"
            )
        case .numbersUsedUp:
            .init(
                .failure,
                "\(volume): the keybag has the highest slot number or serial that there is, so this change is not possible, and removing passphrases does not help; copy the files into a new volume (protectfs init)"
            )
        case .memory(let error): memory(error)
        }
    }

    /// The ways to open a volume if its device key is not here.
    static func withoutDeviceKey(_ volume: HostPath) -> String {
        "give the key with --device-key FILE, or use the recovery code: with --recovery-file FILE in place of the passphrase, or protectfs recovery use \(volume.word) for a new passphrase and device key"
    }

    /// What else a newer keybag may be if this version, or an earlier one, seems to have written it or another one in its place.
    private static func orDamaged(_ volume: HostPath) -> String {
        ". Or the keybag is damaged, which is likelier here: \(KeybagAdvice.restoring(volume))"
    }

    /// The writer that a keybag names, which nothing has verified.
    private static func says(_ writer: String?) -> String {
        guard let writer, WriterName.isNameAndVersion(writer) else { return "" }
        return "; its keybag names as its writer, not verified: \"\(writer)\""
    }

    /// A volume whose device key this version cannot use by itself.
    package static func newerDeviceSlot(_ slot: UInt32, _ volume: HostPath) -> String {
        "\(volume): the device key alone does not open the volume here, because a newer version of protectfs made slot \(slot) of the keybag; unlock with a passphrase or the recovery code, or use that version"
    }

    /// A volume with features that this program must know to change it.
    static func readOnly(_ features: UInt32, _ writer: String?, _ volume: HostPath) -> String {
        "\(volume): a newer version of protectfs has added features (\(FeatureNames.list(features))\(says(writer))); this version can read the volume, and must not change it"
    }

    /// The error in bytes.
    package static func reason(_ error: FormatError) -> String {
        switch error {
        case .length: "wrong length"
        case .magic: "not a keybag"
        case .version(let version): "version \(version)"
        case .unknownClass: "unknown class"
        case .suite: "unknown cipher"
        case .unsupported(let field): "unknown \(field)"
        case .inconsistent(let field): "inconsistent \(field)"
        case .encoding: "wrong encoding"
        }
    }

    /// An error of an operation on the volume.
    package static func volume(_ error: VolumeError, _ path: HostPath) -> CommandFailure {
        switch error {
        case .locked(let protectionClass):
            .init(
                .locked,
                "\(path): the volume is locked, which closes class \(protectionClass.canonicalName); unlock it first (protectfs unlock MOUNTPOINT)"
            )
        case .store(let code): store(code, path)
        case .damaged(let damage):
            .init(.volume, "\(path): the volume is damaged (\(damage.rawValue)); run protectfs fsck to see where")
        case .newer(let object):
            .init(.unsupported, "\(path): made by a newer version of protectfs (\(object.rawValue)); use that version")
        case .stateFile(let failure): stateFile(failure)
        case .refused(let code): store(code, path)
        }
    }
}
