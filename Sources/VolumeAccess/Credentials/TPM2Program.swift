// Runs the TPM helper, a program of its own: the TPM's libraries copy secrets into their heap, and no other process has it.

import CLibrary
import CommandSupport
import HostSystem
import SodiumKit
import VolumeFormat

/// Why a TPM did not do what it was asked. The numbers are those of `TPM2Helper/Request.h`.
enum TPM2Failure: UInt8 {
    case noDevice = 1
    case lockout = 2
    case wrongPIN = 3
    case otherState = 4
    case otherTPM = 5
    case damaged = 6
    case ownerPassword = 7
    case noBank = 8
    case failed = 9
    case misused = 10
}

/// The TPM helper.
struct TPM2Program {
    /// A failure, with the TPM's number or an errno.
    struct Refusal: Error {
        let failure: TPM2Failure
        let number: UInt32
    }

    /// The name of the program, in the directory `libexec` beside that of protectfs.
    private static let name = "protectfs-tpm2"
    /// How long a TPM may take for all commands of one request.
    private static let patience: UInt64 = 120_000_000_000
    private enum Action: UInt8 {
        case seal = 1
        case unseal = 2
    }
    /// The number `PFS_COUNT_OPEN`.
    private static let openCount: UInt32 = 1
    /// Bytes of an answer's status and number.
    private static let statusLength = 5

    /// The TPM, as a TCTI and its configuration.
    let device: String

    /// What the TPM has sealed.
    struct Sealed {
        /// The storage key's name and both parts of the sealed object.
        let answer: [UInt8]
        /// Whether everyone who may use the TPM can reset its count of wrong PINs.
        let hasOpenCount: Bool
    }

    /// Seals a secret.
    func seal(
        _ secret: borrowing SecretKey, pcrs: UInt32, auth: borrowing SecretKey?
    ) throws(CommandFailure) -> Result<Sealed, Refusal> {
        let run = try start()
        do throws(SystemError) {
            try Self.begin(.seal, pcrs, auth, run.request)
            try secret.withBytes { bytes throws(SystemError) in try run.request.write(bytes) }
        } catch {
            throw try failure(run.child, error)
        }
        let number: UInt32
        switch try status(run.child, run.reply) {
        case .success(let said): number = said
        case .failure(let refusal): return .failure(refusal)
        }
        let answer: [UInt8]
        do throws(SystemError) { answer = try run.reply.readAll(limit: 4096) } catch {
            throw try failure(run.child, error)
        }
        try end(run.child)
        return .success(Sealed(answer: answer, hasOpenCount: number == Self.openCount))
    }

    /// The secret of a slot, or why the TPM does not give it.
    func unseal(
        _ slot: SlotTPM2, auth: borrowing SecretKey?, into secret: inout SecretKey
    ) throws(CommandFailure) -> Refusal? {
        let run = try start()
        do throws(SystemError) {
            try Self.begin(.unseal, slot.pcrs, auth, run.request)
            try run.request.write((slot.parentName + slot.blobs).span)
        } catch {
            throw try failure(run.child, error)
        }
        if case .failure(let refusal) = try status(run.child, run.reply) { return refusal }
        do throws(SystemError) {
            let count = try secret.withMutableBytes { (span: inout MutableSpan<UInt8>) throws(SystemError) -> Int in
                try run.reply.read(into: &span)
            }
            guard count == SecretKey.byteCount else { throw SystemError(code: EPIPE, call: "read") }
        } catch {
            throw try failure(run.child, error)
        }
        try end(run.child)
        return nil
    }

    private struct Run: ~Copyable {
        let child: ChildProcess
        let request: Descriptor
        let reply: Descriptor
    }

    private func start() throws(CommandFailure) -> Run {
        var path = HostPath(Self.name)
        do throws(SystemError) {
            path = try Processes.ownProgram().parent.parent.appending("libexec").appending(Self.name)
            var toChild = try Pipe()
            var fromChild = try Pipe()
            guard let input = toChild.reading.take(), let request = toChild.writing.take(),
                let reply = fromChild.reading.take(), let output = fromChild.writing.take()
            else { preconditionFailure("a new pipe has two ends") }
            let child = try ChildProcess.start(
                path, [Array(Self.name.utf8), Array(device.utf8)],
                descriptors: [(0, input.number), (1, output.number)])
            return Run(child: child, request: request, reply: reply)
        } catch {
            guard error.code == ENOENT else { throw ErrorMessages.system(error) }
            throw .init(
                .unsupported,
                "slots of a TPM need the program \(path), which is not installed; mount-scripts/packaging/make-tpm2 of protectfs's source builds it"
            )
        }
    }

    private static func begin(
        _ action: Action, _ pcrs: UInt32, _ auth: borrowing SecretKey?, _ request: borrowing Descriptor
    ) throws(SystemError) {
        var start = [UInt8](repeating: 0, count: 6)
        start[0] = action.rawValue
        for index in 0..<4 { start[2 + index] = UInt8(truncatingIfNeeded: pcrs >> (8 * index)) }
        switch auth {
        case .some(let auth):
            start[1] = 1
            try request.write(start.span)
            try auth.withBytes { bytes throws(SystemError) in try request.write(bytes) }
        case .none: try request.write((start + [UInt8](repeating: 0, count: SecretKey.byteCount)).span)
        }
    }

    /// Waits for the answer. The number if what was asked is done.
    private func status(
        _ child: ChildProcess, _ reply: borrowing Descriptor
    ) throws(CommandFailure) -> Result<UInt32, Refusal> {
        var bytes = [UInt8](repeating: 0, count: Self.statusLength)
        do throws(SystemError) {
            try reply.waitForInput(until: monotonicNanoseconds() + Self.patience)
            var span = bytes.mutableSpan
            guard try reply.read(into: &span) == Self.statusLength else {
                throw SystemError(code: EPIPE, call: "read")
            }
        } catch {
            throw try failure(child, error)
        }
        let number: UInt32 = bytes.span.littleEndian(at: 1)
        if bytes[0] == 0 { return .success(number) }
        _ = try? child.wait()
        return .failure(Refusal(failure: TPM2Failure(rawValue: bytes[0]) ?? .misused, number: number))
    }

    private func end(_ child: ChildProcess) throws(CommandFailure) {
        do throws(SystemError) { _ = try child.wait() } catch { throw ErrorMessages.system(error) }
    }

    /// The failure of a helper that did not answer. Its exit code explains more than its missing output.
    private func failure(_ child: ChildProcess, _ error: SystemError) throws(CommandFailure) -> CommandFailure {
        if error.code == ETIMEDOUT { kill(child.id, SIGKILL) }
        let ending: ChildProcess.Ending
        do throws(SystemError) { ending = try child.wait() } catch { throw ErrorMessages.system(error) }
        switch ending {
        // What ld.so(8) ends a program with.
        case .exited(127):
            return .init(
                .unsupported,
                "slots of a TPM need libraries that are missing; install the packages that protectfs recommends (libtss2-esys, libtss2-mu, libtss2-tctildr and libtss2-tcti-device)"
            )
        case _ where error.code == ETIMEDOUT:
            return .init(.failure, "the TPM \(device) did not answer in \(Self.patience / 1_000_000_000) s; try again")
        default: return .init(.failure, "\(Self.name) failed (\(ending)); try again, or use another slot")
        }
    }
}
