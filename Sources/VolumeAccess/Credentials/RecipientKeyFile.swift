// A recipient's keys in files and on the command line. The first line of a file is the key; the rest is for people.

package import CommandSupport
package import HostSystem
import Keybag
import SodiumKit
import VolumeFormat

/// Reading and writing of recipients' keys.
package enum RecipientKeyFile {
    /// Makes a key pair, and writes the private key to a new file of mode 0600.
    ///
    /// - Returns: the text of the public key.
    package static func make(_ path: HostPath) throws(CommandFailure) -> String {
        let pair = try newPair()
        do throws(SystemError) {
            try DeviceKeyFile.create(path) { file throws(SystemError) in
                try pair.privateText.withBytes { bytes throws(SystemError) in try file.write(bytes) }
                try file.write(
                    "\n# Keep this file secret: it opens every volume that has its public key as a recipient.\n# "
                        + pair.publicText + "\n")
            }
        } catch {
            throw .init(.failure, "\(path): \(error.reason)")
        }
        return pair.publicText
    }

    private static func newPair() throws(CommandFailure) -> RecipientKey.Pair {
        do throws(SodiumError) { return try RecipientKey.Pair() } catch { throw ErrorMessages.memory(error) }
    }

    /// The public key that `--recipient` gives: as text, or as a file whose first line is a public or a private key.
    package static func publicKey(_ given: HostPath) throws(CommandFailure) -> InlineArray<32, UInt8> {
        if RecipientText.publicKey.begins(given.bytes.span) {
            do throws(KeybagError) { return try RecipientKey.publicKey(from: given.bytes.span) } catch {
                throw failure(error, "--recipient \(given)")
            }
        }
        return try publicKey(ofFile: given, option: "recipient")
    }

    /// The public key of a file whose first line is a public or a private key.
    package static func publicKey(ofFile path: HostPath, option: String?) throws(CommandFailure) -> InlineArray<
        32, UInt8
    > {
        let line = try CredentialInput.line(ofFile: path, option: option)
        do throws(KeybagError) {
            return try line.withBytes { text throws(KeybagError) in
                if RecipientText.publicKey.begins(text) { return try RecipientKey.publicKey(from: text) }
                return X25519.publicKey(of: try RecipientKey.privateKey(from: text))
            }
        } catch {
            throw failure(error, (option.map { "--\($0) " } ?? "") + path.description)
        }
    }

    private static func failure(_ error: KeybagError, _ source: String) -> CommandFailure {
        let failure = ErrorMessages.keybag(error, HostPath(source))
        return .init(failure.code, "\(source): \(failure.message)")
    }
}
