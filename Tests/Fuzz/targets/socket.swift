// The control socket's bytes as a connection carries them: frames, JSON, secrets, through the server's own code.

@testable import Control
import CLinuxShim
import Glibc
import HostSystem
import Keybag
import SodiumKit
import VolumeFormat

private final class Handler: ControlHandler {
    func status() -> StatusReport { StatusReport() }
    func lock(_ request: LockRequest, by user: UInt32?) throws(ControlFailure) -> LockReport { LockReport() }
    func renewKey(
        _ request: RenewalRequest, progress: (ClassProgress) -> Bool
    ) throws(ControlFailure) -> RenewalReport {
        check(!request.path.isEmpty && request.path.first != 0x2f, "a path leaves the store")
        _ = progress(ClassProgress(done: 1, total: 2))
        return RenewalReport(isRenewed: false, bytes: 0)
    }
    func formerKeys() throws(ControlFailure) -> FormerKeysReport {
        FormerKeysReport(moves: nil, keys: [], hasLateRecords: false)
    }
    func unlock(
        _ credential: consuming Credential, when condition: UnlockCondition, by user: UInt32?
    ) throws(ControlFailure) -> UnlockOutcome {
        switch consume credential {
        case .passphrase(let secret): check(secret.byteCount <= Credential.maximumLength, "a secret is too long")
        case .recoveryCode(let secret): check(secret.byteCount > 0, "a secret is empty")
        case .recipientKey(let secret): check(secret.byteCount > 0, "a private key is empty")
        case .tpm2(let secret): check(secret.byteCount > 0, "what a TPM gave is empty")
        case .securityKey(let secret): check(secret.byteCount > 0, "a security key's secret is empty")
        }
        return .again
    }
    func unmount(isForced: Bool, by user: UInt32?) throws(ControlFailure) { throw ControlFailure(code: "no") }
    func changeClass(
        _ request: ClassRequest, by user: UInt32?, progress: (ClassProgress) -> Bool
    ) throws(ControlFailure) {
        check(!request.path.isEmpty && request.path.first != 0x2f, "a path leaves the mount")
        _ = progress(ClassProgress(done: 1, total: 2))
    }
    func info() throws(ControlFailure) -> JSONValue { [:] }
    func prove(_ challenge: MountChallenge) -> [UInt8] { [] }
    func path(_ request: PathRequest) throws(ControlFailure) -> PathReport {
        check(request.path.count <= PATH_MAX && request.path.first != 0x2f, "a path leaves its root")
        return PathReport()
    }
    func trust(_ request: TrustRequest) throws(ControlFailure) {
        check(request.path.map { !$0.isEmpty && $0.first != 0x2f } ?? true, "a path leaves the mount")
    }
}

private let server: ControlServer = {
    var limits = ControlLimits()
    limits.idle = 0.05
    limits.transfer = 0.05
    let path = HostPath("/tmp/protectfs-fuzz-\(getpid())")
    guard let server = try? ControlServer(socket: path, handler: Handler(), events: EventHub(), limits: limits) else {
        fatalError("no socket")
    }
    _ = unsafe path.withCString { unsafe unlink($0) }
    return server
}()

enum SocketTarget: FuzzTarget {
    static func fuzz(_ bytes: Span<UInt8>) {
        let input = bytes.copiedBytes()
        if let value = try? JSONValue(parsing: input) {
            let written = value.serialized()
            guard let again = try? JSONValue(parsing: written) else { fatalError("what was written is not JSON") }
            check(again == value && again.serialized() == written, "JSON is written as other JSON")
            if let report = StatusReport(value) { check(StatusReport(report.json) == report, "a report changes") }
            if let report = LockReport(value) { check(LockReport(report.json) == report, "a report changes") }
            if let event = ControlEvent(value) { check(ControlEvent(event.json) == event, "an event changes") }
        }
        var ends: [Int32] = [0, 0]
        guard input.count <= 32 << 10, unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue), 0, &ends) == 0 else {
            return
        }
        _ = unsafe write(ends[0], input, input.count)
        shutdown(ends[0], Int32(SHUT_WR))
        let channel = Channel(Descriptor(taking: ends[1]))
        server.serve(channel)
        server.events.remove(channel)
        close(ends[0])
    }

    static func seeds() -> [[UInt8]] {
        [
            frame(#"{"request":"status"}"#) + frame(#"{"request":"lock","grace":1.5}"#),
            frame(#"{"request":"unlock","kind":"passphrase","length":3}"#) + Array("abc".utf8),
            frame(#"{"request":"class","path":"612f62","class":"complete","mode":"reencrypt"}"#),
            frame(#"{"request":"path","path":"612f62","reverse":true}"#),
            frame(#"{"request":"subscribe","wait":true}"#) + frame(#"{"request":"done","id":1}"#),
            Array(StatusReport().json.line.utf8), Array(LockReport().json.line.utf8),
            Array(ControlEvent.willLock(id: 1, grace: 5).json.line.utf8),
            Array(#"["\ud834\udd1e\n",1e5,-0.5,null,true,{}]"#.utf8),
        ]
    }
}

private func frame(_ text: String) -> [UInt8] {
    let json = Array(text.utf8)
    return [UInt8(json.count & 255), UInt8(json.count >> 8), 0, 0] + json
}
