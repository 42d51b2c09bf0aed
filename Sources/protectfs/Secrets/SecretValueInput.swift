// Reads a secret for `secret set` from standard input, a file, or a terminal without echo.

import CLibrary
import CommandSupport
import HostSystem
import Keybag
import SecretStore
import SodiumKit
import VolumeAccess
import VolumeFormat

/// Reads a secret for `secret set` straight into locked memory.
enum SecretValueInput {
    /// Reads from the source in the options, or from the terminal if standard input is one.
    static func read(_ arguments: Arguments, account: HostPath) throws(CommandFailure) -> SecretBytes {
        let source: String
        var secret: SecretBytes
        if let path = arguments.path("file") {
            source = "--file \(path)"
            secret = try all(of: try open(path, source), source)
        } else if Terminal.isTerminal(0) {
            return try CredentialInput.twice(prompt: "Secret for \(account): ", option: "file", what: "secret")
        } else {
            source = "standard input"
            let input = Descriptor(taking: 0)
            secret = try all(of: input, source)
            _ = input.release()
        }
        if arguments.has("line") {
            let end = secret.withBytes { bytes in
                bytes.indices.first { bytes[$0] == 0x0A }
            }
            if let end { secret.shorten(to: end) }
        }
        return secret
    }

    private static func open(_ path: HostPath, _ source: String) throws(CommandFailure) -> Descriptor {
        do throws(SystemError) { return try Descriptor(opening: path, O_RDONLY | O_NOCTTY) } catch {
            throw .init(.failure, "\(source): \(error.reason)")
        }
    }

    /// The bytes of the first read. Most secrets are shorter.
    private static let firstRoom = 4096

    /// Reads to the end. The first buffer is small, because locked memory is scarce.
    private static func all(
        of input: borrowing Descriptor, _ source: String
    ) throws(CommandFailure) -> SecretBytes {
        var first = try room(firstRoom)
        let count = try fill(&first, from: 0, input, source)
        if count < first.byteCount {
            first.shorten(to: count)
            return first
        }
        var whole = try room(SecretStore.largestSecret + 1)
        first.withBytes { bytes in
            whole.withMutableBytes { span in span.copy(bytes, to: 0) }
        }
        let length = try fill(&whole, from: count, input, source)
        guard length <= SecretStore.largestSecret else {
            throw .init(
                .failure,
                "\(source): longer than \(SecretStore.largestSecret) bytes; store it as a file of the mount instead")
        }
        whole.shorten(to: length)
        return whole
    }

    private static func fill(
        _ secret: inout SecretBytes, from start: Int, _ input: borrowing Descriptor, _ source: String
    ) throws(CommandFailure) -> Int {
        do throws(SystemError) {
            return try secret.withMutableBytes { (span: inout MutableSpan<UInt8>) throws(SystemError) -> Int in
                var rest = span._mutatingExtracting(start...)
                return start + (try input.read(into: &rest))
            }
        } catch {
            throw .init(.failure, "\(source): \(error.reason)")
        }
    }

    private static func room(_ count: Int) throws(CommandFailure) -> SecretBytes {
        do throws(SodiumError) { return try SecretBytes(byteCount: count) } catch { throw ErrorMessages.memory(error) }
    }
}
