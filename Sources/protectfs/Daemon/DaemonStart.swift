// Starts the daemon, which is this program again, and waits for its report. The secret is in a pipe.

import Glibc
import HostSystem
import Keybag
import SodiumKit

/// The starter's side.
enum DaemonStart {
    /// Starts the daemon with this program's own arguments. Returns when the mount answers.
    static func run(_ words: [HostPath], _ credential: borrowing Credential?) throws(CommandFailure) {
        do {
            var report = try Pipe()
            var secret = try Pipe()
            guard let reportReading = report.reading.take(), let reportWriting = report.writing.take(),
                let secretReading = secret.reading.take(), let secretWriting = secret.writing.take()
            else { preconditionFailure("a new pipe has two ends") }
            let program = try ownPath()
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
            try send(credential, secretWriting)
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

    /// The path of the program's file. Starting /proc/self/exe itself would give the daemon the name "exe".
    private static func ownPath() throws(SystemError) -> HostPath {
        var buffer = [CChar](repeating: 0, count: Int(PATH_MAX))
        let count = unsafe readlink("/proc/self/exe", &buffer, buffer.count)
        guard count > 0 else { throw .last("readlink", "/proc/self/exe") }
        return HostPath(bytes: buffer[..<count].map { UInt8(bitPattern: $0) })
    }

    /// Sends one byte for the kind, then the secret of at most 4 KiB, which a pipe holds without a reader.
    private static func send(_ credential: borrowing Credential?, _ pipe: borrowing Descriptor) throws(SystemError) {
        switch credential {
        case .none: break
        case .some(.passphrase(let secret)):
            try pipe.write("p")
            try secret.withBytes { bytes throws(SystemError) in try pipe.write(bytes) }
        case .some(.recoveryCode(let secret)):
            try pipe.write("r")
            try secret.withBytes { bytes throws(SystemError) in try pipe.write(bytes) }
        }
    }

    /// Whether the pipes are there. Without this check the first files that this process opens would be taken for them.
    static var isStarted: Bool {
        [DaemonReport.reportNumber, DaemonReport.secretNumber].allSatisfy { number in
            var status = stat()
            return unsafe fstat(number, &status) == 0 && status.st_mode & S_IFMT == S_IFIFO
        }
    }

    /// The daemon's side: reads the credential from the pipe. Nil if none was sent.
    static func receive() throws(CommandFailure) -> Credential? {
        let pipe = Descriptor(taking: DaemonReport.secretNumber)
        do {
            let kind = try pipe.readAll(limit: 1)
            guard let first = kind.first else { return nil }
            var secret: SecretBytes
            do throws(SodiumError) {
                secret = try SecretBytes(byteCount: Credential.maximumLength)
            } catch {
                throw ErrorMessages.memory(error)
            }
            let count = try secret.withMutableBytes { (span: inout MutableSpan<UInt8>) throws(SystemError) -> Int in
                try pipe.read(into: &span)
            }
            secret.shorten(to: count)
            return first == UInt8(ascii: "p") ? .passphrase(secret) : .recoveryCode(secret)
        } catch let error as CommandFailure {
            throw error
        } catch let error as SystemError {
            throw ErrorMessages.system(error)
        } catch {
            throw .init(.failure, "the secret could not be read")
        }
    }
}
