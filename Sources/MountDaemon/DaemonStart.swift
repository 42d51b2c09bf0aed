// Starts the daemon, which is this program again, and waits for its report. The secrets are in a pipe.

import CLibrary
package import CommandSupport
package import HostSystem
package import Keybag
package import SodiumKit
package import VolumeAccess

/// The starter's side.
package enum DaemonStart {
    /// Starts the daemon with this program's own arguments. Returns when the mount answers.
    package static func run(
        _ words: [HostPath], _ credential: borrowing Credential?, _ deviceKey: FoundVolume.DeviceKeyChoice
    ) throws(CommandFailure) {
        do {
            var report = try Pipe()
            var secret = try Pipe()
            guard let reportReading = report.reading.take(), let reportWriting = report.writing.take(),
                let secretReading = secret.reading.take(), let secretWriting = secret.writing.take()
            else { preconditionFailure("a new pipe has two ends") }
            let program = try Processes.ownProgram()
            let arguments =
                [Array("protectfs".utf8), Array("mount".utf8), Array("--started-by-mount".utf8)] + words.map(\.bytes)
            let child = try ChildProcess.start(
                program, arguments,
                descriptors: [
                    (DaemonReport.reportNumber, reportWriting.number),
                    (DaemonReport.secretNumber, secretReading.number),
                ])
            _ = consume reportWriting
            _ = consume secretReading
            try StartSecrets.send(deviceKey, credential, secretWriting)
            _ = consume secretWriting
            let answer = try reportReading.readAll(limit: 65536)
            do throws(CommandFailure) {
                try DaemonReport.parse(answer)
            } catch {
                _ = try? child.wait()
                throw error
            }
        } catch let error as CommandFailure {
            throw error
        } catch let error as SystemError {
            throw .init(.failure, "the daemon could not be started: \(error)")
        } catch {
            throw .init(.failure, "the daemon could not be started")
        }
    }

    /// Whether the pipes are there. Without this check the first files that this process opens would be taken for them.
    package static var isStarted: Bool {
        [DaemonReport.reportNumber, DaemonReport.secretNumber].allSatisfy { number in
            var status = stat()
            return unsafe fstat(number, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
        }
    }
}

/// The daemon's end of the pipe with the secrets: the device key if one was read from a pipe, then the credential.
package struct StartSecrets: ~Copyable {
    /// The first byte, and the byte before the credential.
    private enum Kind {
        static let deviceKey = "k"
        static let noDeviceKey = "-"

        static func of(_ form: Credential.Form) -> String {
            switch form {
            case .passphrase: "p"
            case .recoveryCode: "r"
            case .recipientKey: "i"
            case .tpm2: "t"
            case .securityKey: "f"
            }
        }

        static func form(_ kind: String) -> Credential.Form? {
            [.passphrase, .recoveryCode, .recipientKey, .tpm2, .securityKey].first { of($0) == kind }
        }
    }

    private let pipe = Descriptor(taking: DaemonReport.secretNumber)

    /// Takes the pipe. Once in a process, and only if `DaemonStart.isStarted`.
    package init() {}

    /// Sends both, at most 5 KiB, which a pipe holds without a reader.
    fileprivate static func send(
        _ deviceKey: FoundVolume.DeviceKeyChoice, _ credential: borrowing Credential?, _ pipe: borrowing Descriptor
    ) throws(SystemError) {
        if case .held(let held) = deviceKey {
            try pipe.write(Kind.deviceKey)
            try held.key.withBytes { bytes throws(SystemError) in try pipe.write(bytes) }
        } else {
            try pipe.write(Kind.noDeviceKey)
        }
        switch credential {
        case .none: break
        case .some(let credential):
            try pipe.write(Kind.of(credential.form))
            try credential.withSecret { secret throws(SystemError) in
                try secret.withBytes { bytes throws(SystemError) in try pipe.write(bytes) }
            }
        }
    }

    /// The device key. Nil if none was sent. Read it first.
    package func deviceKey() throws(CommandFailure) -> SecretKey? {
        guard try kind() == Kind.deviceKey else { return nil }
        var key: SecretKey
        do throws(SodiumError) { key = try SecretKey() } catch { throw ErrorMessages.memory(error) }
        do throws(SystemError) {
            let count = try key.withMutableBytes { (span: inout MutableSpan<UInt8>) throws(SystemError) -> Int in
                try pipe.read(into: &span)
            }
            guard count == SecretKey.byteCount else { throw SystemError(code: EPIPE, call: "read") }
        } catch {
            throw ErrorMessages.system(error)
        }
        return key
    }

    /// The credential. Nil if none was sent.
    package consuming func credential() throws(CommandFailure) -> Credential? {
        guard let kind = try kind(), let form = Kind.form(kind) else { return nil }
        var secret: SecretBytes
        do throws(SodiumError) { secret = try SecretBytes(byteCount: Credential.maximumLength) } catch {
            throw ErrorMessages.memory(error)
        }
        let count: Int
        do throws(SystemError) {
            count = try secret.withMutableBytes { (span: inout MutableSpan<UInt8>) throws(SystemError) -> Int in
                try pipe.read(into: &span)
            }
        } catch {
            throw ErrorMessages.system(error)
        }
        secret.shorten(to: count)
        return Credential(form, secret)
    }

    private func kind() throws(CommandFailure) -> String? {
        do throws(SystemError) {
            let bytes = try pipe.readAll(limit: 1)
            return bytes.isEmpty ? nil : String(decoding: bytes, as: UTF8.self)
        } catch {
            throw ErrorMessages.system(error)
        }
    }
}
