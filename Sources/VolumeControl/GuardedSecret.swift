// Passphrases of programs, in guarded memory.

internal import CLibrary
internal import HostSystem
internal import Keybag
internal import SodiumKit

/// A passphrase, a recovery code or the text of a recipient's private key.
///
/// Its memory is locked (mlock(2)), has guard pages, is left out of core dumps, and is wiped when the value ends. Wipe the bytes
/// that you copy it from, and use no `String` for them: a string's memory cannot be wiped.
public struct GuardedSecret: ~Copyable, Sendable {
    /// What a secret is.
    public enum Kind: Sendable {
        /// A passphrase, byte for byte as typed, without a newline.
        case passphrase
        /// A recovery code. Case, spaces and hyphens do not matter.
        case recoveryCode
        /// The text in the file that `protectfs recipient new` makes.
        case recipientKey

        var form: Credential.Form {
            switch self {
            case .passphrase: .passphrase
            case .recoveryCode: .recoveryCode
            case .recipientKey: .recipientKey
            }
        }

        /// The option of the command that reads such a secret from a file.
        var option: String {
            switch self {
            case .passphrase: "--passphrase-file"
            case .recoveryCode: "--recovery-file"
            case .recipientKey: "--recipient-key"
            }
        }
    }

    /// What it is.
    public let kind: Kind
    let bytes: SecretBytes

    /// The longest secret, in bytes.
    public static var maximumLength: Int { Credential.maximumLength }

    /// Copies 1 to 4,096 bytes.
    ///
    /// - Throws: `VolumeControlError.unusableSecret`.
    public init(_ kind: Kind = .passphrase, copying bytes: Span<UInt8>) throws(VolumeControlError) {
        guard !bytes.isEmpty, bytes.count <= Self.maximumLength else { throw .unusableSecret }
        do throws(SodiumError) { self.bytes = try SecretBytes(copying: bytes) } catch { throw .unusableSecret }
        self.kind = kind
    }

    /// Reads a line from a descriptor, such as a pipe from a program that asks: up to a newline or the end, straight into
    /// guarded memory.
    ///
    /// - Throws: `VolumeControlError.unusableSecret` if the line is empty or too long, `.failed` if it cannot be read.
    public init(_ kind: Kind = .passphrase, readingLineFrom descriptor: Int32) throws(VolumeControlError) {
        var bytes: SecretBytes
        do throws(SodiumError) { bytes = try SecretBytes(byteCount: Self.maximumLength) } catch {
            throw .unusableSecret
        }
        do throws(SystemError) {
            let file = try Descriptor(duplicating: descriptor)
            let count = try bytes.withMutableBytes { (span: inout MutableSpan<UInt8>) throws(SystemError) in
                try Terminal.readLine(from: file, into: &span)
            }
            bytes.shorten(to: count)
        } catch {
            throw [EPIPE, E2BIG].contains(error.code) ? .unusableSecret : .failed("\(error)")
        }
        guard bytes.byteCount > 0 else { throw .unusableSecret }
        self.bytes = bytes
        self.kind = kind
    }

    /// The form in which the control socket takes it.
    consuming func credential() -> Credential { Credential(kind.form, bytes) }
}
