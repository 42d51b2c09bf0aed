// Passphrases from systemd: the credentials of a service, and questions that systemd-ask-password puts to a person.

import CLibrary
import CommandSupport
import HostSystem
import SodiumKit

extension CredentialInput {
    /// The variable with the directory of a service's credentials (systemd.exec(5)).
    private static let credentialsDirectory = "CREDENTIALS_DIRECTORY"

    /// The first line of a credential that a unit has given to this process.
    static func line(ofCredential name: HostPath, option: String) throws(CommandFailure) -> SecretBytes {
        let source = "--\(option) \(name)"
        guard isCredentialName(name.bytes) else {
            throw .init(
                .usage, "\(source): invalid name of a credential; use the one of LoadCredential=, without its path")
        }
        guard let place = SystemPaths.environment(credentialsDirectory), place.isAbsolute else {
            throw .init(
                .authentication,
                "\(source): this process has no credentials; give it one with LoadCredential= or LoadCredentialEncrypted= in its unit"
            )
        }
        // What others can change or read is not a credential of systemd.
        for path in [place, place.appending(bytes: name.bytes)] {
            let found: stat
            do throws(SystemError) { found = try FileStatus.read(path) } catch {
                throw .init(.authentication, "\(source): \(error.reason) (\(path))")
            }
            let kind: mode_t = path == place ? S_IFDIR : S_IFREG
            guard found.st_mode & S_IFMT == kind else {
                let expected = path == place ? "directory" : "regular file"
                throw .init(.authentication, "\(source): \(path) is not a \(expected)")
            }
            // An entry for the user of the service in an access control list counts as the group's.
            guard found.st_uid == 0 || found.st_uid == geteuid(), found.st_mode & 0o027 == 0 else {
                throw .init(
                    .authentication,
                    "\(source): other users can read or change \(path); a credential belongs to root or to the service alone"
                )
            }
        }
        return try line(ofFile: place.appending(bytes: name.bytes), option: option)
    }

    /// Whether systemd takes it for the name of a credential: printable ASCII, no slash, no colon, 255 bytes at most.
    private static func isCredentialName(_ name: [UInt8]) -> Bool {
        !name.isEmpty && name.count <= 255 && name != Array(".".utf8) && name != Array("..".utf8)
            && name.allSatisfy { (0x21...0x7E).contains($0) && $0 != UInt8(ascii: "/") && $0 != UInt8(ascii: ":") }
    }

    /// What a person answers to systemd-ask-password(1): at the terminal, or else wherever the system asks, such as at boot.
    static func answer(toPrompt prompt: String, option: String) throws(CommandFailure) -> SecretBytes {
        var text = prompt
        // It adds what divides the question from the answer.
        while text.last == " " || text.last == ":" { text.removeLast() }
        let words = ["systemd-ask-password", "--id=protectfs", "--icon=drive-harddisk", "--", text]
        return try line(of: HostPath(words[0]), words.map { Array($0.utf8) }, option: option) { code in
            "nobody has answered, or systemd-ask-password(1) could not ask (exit code \(code))"
        }
    }
}
