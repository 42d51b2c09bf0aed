// A server on a socket of its own, with a handler that answers from a script.

import CLinuxShim
import Glibc
import HostSystem
import Keybag
import SodiumKit
import Synchronization
import VolumeFormat

@testable import Control

final class TestHandler: ControlHandler {
    let lockCount = Atomic(0)
    let unlockCount = Atomic(0)
    let secretLength = Atomic(0)
    let unmounts = Atomic(0)
    let classes = Lock<[ClassRequest]>([])

    let refusesLocks = Atomic(0)
    let onStatus = Lock<@Sendable () -> Void>({})

    func status() -> StatusReport {
        onStatus.withLock { $0 }()
        var report = StatusReport()
        report.volume = HostPath("/v ü")
        report.mountPoint = HostPath("/m")
        report.volumeID = "u"
        report.state = .locked
        report.openHandles = [.complete: 2, .none: 1]
        report.idleLimit = 60
        return report
    }

    /// Who asked for a lock, and how, the last time.
    let lastLock = Lock<(request: LockRequest, user: UInt32?)?>(nil)

    func lock(_ request: LockRequest, by user: UInt32?) throws(ControlFailure) -> LockReport {
        lockCount.add(1, ordering: .relaxed)
        lastLock.withLock { $0 = (request, user) }
        if request.grace == 99 || refusesLocks.load(ordering: .relaxed) == 1 {
            throw ControlFailure(code: "notNow", details: ["why": "test"])
        }
        var report = LockReport()
        report.cutOff = 3
        report.processes = [4, 5]
        return report
    }

    /// What answers challenges. Nil answers with nothing.
    let proof = Lock<(@Sendable (MountChallenge) -> [UInt8])?>(nil)

    func prove(_ challenge: MountChallenge) -> [UInt8] { proof.withLock { $0 }?(challenge) ?? [] }

    let renewals = Lock<[RenewalRequest]>([])

    func renewKey(
        _ request: RenewalRequest, progress: (ClassProgress) -> Bool
    ) throws(ControlFailure) -> RenewalReport {
        renewals.withLock { $0.append(request) }
        _ = progress(ClassProgress(done: 1, total: 2))
        return RenewalReport(isRenewed: true, bytes: 2)
    }

    func formerKeys() throws(ControlFailure) -> FormerKeysReport {
        FormerKeysReport(
            moves: 3, keys: [.init(number: 1, generation: 0), .init(number: 2, generation: 65535)], hasLateRecords: true
        )
    }

    let condition = Lock<UnlockCondition?>(nil)

    func unlock(
        _ credential: consuming Credential, when condition: UnlockCondition, by user: UInt32?
    ) throws(ControlFailure) -> UnlockOutcome {
        self.condition.withLock { $0 = condition }
        unlockCount.add(1, ordering: .relaxed)
        switch consume credential {
        case .passphrase(let secret):
            secretLength.store(secret.byteCount, ordering: .relaxed)
            let right = secret.withBytes { $0.equals("open sesame") }
            guard right else { throw ControlFailure(code: "wrongPassphrase") }
            return .first
        case .recoveryCode: return .again
        case .recipientKey: return .alreadyUnlocked
        case .tpm2: return .alreadyUnlocked
        case .securityKey: return .alreadyUnlocked
        }
    }

    /// Whether a change of class was told that its client is gone.
    let abandoned = Lock(false)
    let onUnmount = Lock<@Sendable () -> Void>({})

    func unmount(isForced: Bool, by user: UInt32?) throws(ControlFailure) {
        unmounts.add(1, ordering: .relaxed)
        onUnmount.withLock { $0 }()
        usleep(50_000)
    }

    func changeClass(
        _ request: ClassRequest, by user: UInt32?, progress: (ClassProgress) -> Bool
    ) throws(ControlFailure) {
        classes.withLock { $0.append(request) }
        guard request.mode == .reencrypt else { return _ = progress(ClassProgress(done: 1, total: 2)) }
        // Until nobody listens any more.
        while progress(ClassProgress(done: 1, total: 2)) { usleep(1000) }
        abandoned.withLock { $0 = true }
    }

    func info() throws(ControlFailure) -> JSONValue { ["epochs": [1, 2]] }

    let paths = Lock<[PathRequest]>([])

    func path(_ request: PathRequest) throws(ControlFailure) -> PathReport {
        paths.withLock { $0.append(request) }
        var report = PathReport()
        report.visible = request.path
        report.backing = [0xff, 0x0a]
        return report
    }

    let trusted = Lock<[TrustRequest]>([])

    func trust(_ request: TrustRequest) throws(ControlFailure) { trusted.withLock { $0.append(request) } }
}

/// A running server in a directory of its own.
final class TestServer: Sendable {
    let handler = TestHandler()
    let events: EventHub
    let server: ControlServer
    let directory: String
    var socket: HostPath { HostPath(directory + "/0:99") }

    init(limits: ControlLimits = .standard) throws {
        var template = Array("/tmp/protectfs-control-XXXXXX".utf8CString)
        directory = unsafe template.withUnsafeMutableBufferPointer { buffer in
            guard let base = buffer.baseAddress, unsafe mkdtemp(base) != nil else { return "/nonexistent" }
            return unsafe String(cString: base)
        }
        events = EventHub(longestGrace: limits.longestGrace)
        server = try ControlServer(
            socket: HostPath(directory + "/0:99"), handler: handler, events: events, limits: limits)
        try server.start()
    }

    func stop() {
        server.stop()
        // A test's closure may hold the server, which holds the handler.
        handler.onStatus.withLock { $0 = {} }
        handler.onUnmount.withLock { $0 = {} }
        unsafe rmdir(directory)
    }

    /// A connection that can send any bytes.
    func raw() throws -> Descriptor {
        let descriptor = Descriptor(taking: pfs_unix_socket())
        guard unsafe socket.withCString({ unsafe pfs_unix_connect(descriptor.number, $0) }) == 0 else {
            throw SystemError.last("connect")
        }
        return descriptor
    }
}

func bytes(_ text: String) -> [UInt8] {
    let json = Array(text.utf8)
    return [UInt8(json.count & 255), UInt8(json.count >> 8), 0, 0] + json
}

func sendAll(_ descriptor: borrowing Descriptor, _ bytes: [UInt8]) {
    _ = unsafe bytes.withUnsafeBytes {
        unsafe Glibc.send(descriptor.number, $0.baseAddress, $0.count, Int32(MSG_NOSIGNAL))
    }
}

/// The time limit for expected events, in seconds. Only a hanging test takes this long, even on a slow machine.
let patience = 120.0
/// A grace period longer than `patience`. A test that ends within `patience` has not waited for it.
let longGrace = 300.0

/// Polls until `condition` holds; false when it does not.
func eventually(_ condition: () throws -> Bool) rethrows -> Bool {
    let deadline = monotonicNanoseconds() + UInt64(patience * 1e9)
    while try !condition() {
        if monotonicNanoseconds() >= deadline { return false }
        usleep(10_000)
    }
    return true
}

/// The bytes received until the other end closes; nil if it does not close.
func readToEnd(_ descriptor: borrowing Descriptor) -> [UInt8]? {
    let deadline = monotonicNanoseconds() + UInt64(patience * 1e9)
    var all: [UInt8] = []
    var chunk = [UInt8](repeating: 0, count: 4096)
    while waitUntilReady(descriptor.number, POLLIN, deadline) == nil {
        let got = unsafe recv(descriptor.number, &chunk, chunk.count, 0)
        if got <= 0 { return all }
        all += chunk[..<got]
    }
    return nil
}

/// Runs `body` in a thread of its own; false when none can be made.
func startThread(_ body: @escaping @Sendable () -> Void) -> Bool { BackgroundThread(name: "test", body) != nil }
