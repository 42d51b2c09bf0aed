// The sentences for every kind of error: what happened, why, and what to do. The only place where they are made.

import BackingStore
import Glibc
import HostSystem
import Keybag
import ProtectedVolume
import SodiumKit
import VolumeFormat

/// Turns the errors of the other modules into a command's failure.
enum ErrorMessages {
    /// A failed system call of the command itself.
    static func system(_ error: SystemError, _ code: ExitCode = .failure) -> CommandFailure {
        .init(code, error.subject.isEmpty ? "\(error.call): \(error.reason)" : "\(error.subject): \(error.reason)")
    }

    /// No directory for control sockets that this user can trust.
    static func runtime(_ error: RuntimeDirectoryError) -> CommandFailure {
        let way = "set XDG_RUNTIME_DIR to a directory of your own with mode 0700, also for the commands that follow"
        return switch error {
        case .system(let error): system(error)
        case .notADirectory(let path):
            .init(.failure, "\(path): not a directory, so control sockets cannot be made in it; remove it, or \(way)")
        case .foreign(let path, let owner):
            .init(
                .failure,
                "\(path): belongs to another user (\(owner)), who could answer in the mount's place; \(way)")
        case .open(let path):
            .init(.failure, "\(path): other users may enter this directory of control sockets; chmod 700 \(path)")
        case .replaceable(let path):
            .init(.failure, "\(path.parent): other users may replace what is in it; \(way)")
        }
    }

    /// A primitive that cannot be trusted with data.
    static func primitive(_ error: SelfTestFailure) -> CommandFailure {
        switch error {
        case .memory(let error): memory(error)
        case .wrong(let primitive):
            .init(
                .unsupported,
                "\(primitive) gives a wrong result on this machine; nothing was done, as it would destroy data. Install the library anew, and test the machine's memory and processor"
            )
        }
    }

    /// No locked memory, or no memory.
    static func memory(_ error: SodiumError) -> CommandFailure {
        switch error {
        case .lockLimit(let bytes):
            .init(
                .failure,
                "the limit of locked memory, \(bytes / 1024) KiB, is too low to keep keys out of swap; raise it (ulimit -l, or LimitMEMLOCK= in systemd)"
            )
        case .outOfMemory: .init(.failure, "not enough memory")
        case .invalidPublicKey: .init(.volume, "the keybag's public key is not valid; the keybag has been changed")
        case .passwordHashMemory:
            .init(
                .unsupported,
                "the passphrase's password hash needs more memory than this machine can give; use the recovery code (--recovery-file)"
            )
        }
    }

    /// An errno of the backing store, met while doing something with `path`.
    static func store(_ error: Errno, _ path: HostPath) -> CommandFailure {
        switch error {
        case .EROFS:
            .init(.failure, "\(path): the backing file system is read-only; mount with -o ro, or make it writable")
        case .ENOSPC: .init(.failure, "\(path): no space left on the backing file system; nothing was changed")
        case .EDQUOT: .init(.failure, "\(path): the disk quota is used up; nothing was changed")
        case .EACCES, .EPERM:
            .init(.failure, "\(path): permission denied; the volume's directory must be readable and writable for you")
        case .ENOENT: .init(.volume, "\(path): no such directory")
        case .ENOTDIR: .init(.volume, "\(path): not a directory, so it cannot be a volume")
        case .EAGAIN:
            .init(
                .busy,
                "\(path): the volume is in use by another mount or command; unmount it first (protectfs status shows mounts)"
            )
        case .EOPNOTSUPP, .ENOSYS:
            .init(
                .unsupported,
                "\(path): this file system lacks symbolic links, sparse files or extended attributes, which a volume needs"
            )
        default: .init(.failure, "\(path): \(error)")
        }
    }

    /// A keybag that cannot be read, opened or changed.
    static func keybag(_ error: KeybagError, _ volume: HostPath) -> CommandFailure {
        switch error {
        case .format(.version(let version)):
            .init(
                .unsupported,
                "\(volume): made by a newer version of protectfs (keybag version \(version)); install that version")
        case .format(.unsupported(let field)):
            .init(
                .unsupported,
                "\(volume): uses a feature that this version does not know (\(field)); install a newer protectfs")
        case .format(let error):
            .init(
                .volume,
                "\(volume): the keybag is damaged (\(reason(error))); restore .protectfs.keybag, or try --previous-keybag"
            )
        case .deviceMACMismatch, .unlockMACMismatch, .publicKeyMismatch, .bundleMismatch, .malformedBundle:
            .init(
                .volume,
                "\(volume): the keybag has been changed or belongs to another volume; restore .protectfs.keybag, or try --previous-keybag"
            )
        case .wrongDeviceKey:
            .init(.authentication, "the device key is not this volume's; give the right one with --device-key")
        case .noDeviceSlot:
            .init(.authentication, "this volume has no device key; it needs the passphrase or the recovery code")
        case .wrongPassphrase: .init(.authentication, "wrong passphrase")
        case .deviceKeyNeeded:
            .init(
                .authentication,
                "the passphrase works only together with the device key, which is not here: give it with --device-key, or use the recovery code (--recovery-file)"
            )
        case .noPassphraseSlot:
            .init(.authentication, "the volume has no passphrase; use the recovery code (--recovery-file)")
        case .recoveryCodeTypo:
            .init(
                .authentication,
                "this is no recovery code: there is a typing error in it (30 letters and digits in 6 groups)")
        case .wrongRecoveryCode: .init(.authentication, "the recovery code is not this volume's current one")
        case .unusablePassphrase: .init(.authentication, "a passphrase has 1 to \(Credential.maximumLength) bytes")
        case .passwordHashRefused(let passes, let memory):
            .init(
                .unsupported,
                "the passphrase's password hash wants \(passes) passes over \(memory >> 20) MiB, more than this machine accepts; use the recovery code (--recovery-file)"
            )
        case .passwordHashesRefused(let slots):
            .init(
                .volume,
                "the password hashes of the keybag's \(slots) portable passphrases would take too long together, and without the device key nothing shows that they are the owner's: give the device key (--device-key), or use the recovery code (--recovery-file)"
            )
        case .noSuchSlot(let slot): .init(.usage, "there is no slot \(slot) (see protectfs passphrase list)")
        case .notAPassphraseSlot(let slot):
            .init(.usage, "slot \(slot) is not a passphrase's (see protectfs passphrase list)")
        case .lastPassphrase: .init(.usage, "this is the only passphrase; add another one first")
        case .full: .init(.failure, "\(volume): the keybag has no room for another passphrase; remove one first")
        case .memory(let error): memory(error)
        }
    }

    /// What is wrong with bytes.
    static func reason(_ error: FormatError) -> String {
        switch error {
        case .length: "wrong length"
        case .magic: "not a keybag"
        case .version(let version): "version \(version)"
        case .reservedClass, .unknownClass: "unknown class"
        case .suite: "unknown cipher"
        case .unsupported(let field): "\(field) not known"
        case .inconsistent(let field): "\(field) contradictory"
        case .encoding: "wrong encoding"
        }
    }

    /// An operation on the volume.
    static func volume(_ error: VolumeError, _ path: HostPath) -> CommandFailure {
        switch error {
        case .locked(let protectionClass):
            .init(
                .locked,
                "\(path): the volume is locked, and class \(protectionClass.canonicalName) is closed; unlock it first (protectfs unlock)"
            )
        case .store(let code): store(code, path)
        case .damaged(let damage):
            .init(.volume, "\(path): the volume is damaged (\(damage.rawValue)); protectfs fsck shows where")
        case .refused(let code): store(code, path)
        }
    }
}
