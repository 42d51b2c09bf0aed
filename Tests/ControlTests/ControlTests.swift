// Tests requests and answers, events and waiting, and hostile clients.

import Glibc
import HostSystem
import Keybag
import SodiumKit
import Synchronization
import Testing
import VolumeFormat

@testable import Control

@Suite(.serialized) struct ControlTests {
    private func secret(_ text: String) throws -> SecretBytes {
        let bytes = Array(text.utf8)
        return try SecretBytes(copying: bytes.span)
    }

    @Test func requestsAndAnswers() throws {
        let server = try TestServer()
        defer { server.stop() }
        var status = stat()
        #expect(unsafe server.socket.withCString { unsafe lstat($0, &status) } == 0)
        #expect(status.st_mode & 0o777 == 0o600)
        let client = try ControlClient(connecting: server.socket)
        #expect(try client.status() == server.handler.status())
        #expect(try client.lock().processes == [4, 5])
        #expect(server.handler.lastLock.withLock { $0?.request } == LockRequest())
        let sleep = LockRequest(grace: 2, reason: .sleep)
        _ = try client.lock(sleep)
        #expect(server.handler.lastLock.withLock { $0?.request } == sleep)
        #expect(server.handler.lastLock.withLock { $0?.user } == geteuid())
        #expect(throws: ControlError.refused(ControlFailure(code: "notNow", details: ["why": "test"]))) {
            _ = try client.lock(LockRequest(grace: 99))
        }
        #expect(try client.info()["epochs"] == [1, 2])
        #expect(try client.unlock(.passphrase(try secret("open sesame"))) == .first)
        #expect(try client.unlock(.recoveryCode(try secret("x"))) == .again)
        #expect(throws: ControlError.refused(ControlFailure(code: "wrongPassphrase"))) {
            _ = try client.unlock(.passphrase(try secret("wrong")))
        }
        #expect(try client.unlock(.recoveryCode(try secret(String(repeating: "x", count: 4096)))) == .again)
        #expect(throws: ControlError.unusableSecret) {
            _ = try client.unlock(.passphrase(try secret(String(repeating: "x", count: 4097))))
        }
        let request = ClassRequest(path: [0xff, 0x2f, 0x61], class: .complete, mode: .wrapOnly)
        var steps = 0
        try client.changeClass(request) { _ in steps += 1 }
        #expect(steps == 1)
        #expect(server.handler.classes.withLock { $0 } == [request])
        let asked = PathRequest(path: [0xff, 0x2f, 0x61], isReverse: true)
        let answer = try client.path(asked)
        #expect(answer.visible == asked.path && answer.backing == [0xff, 0x0a] && answer.companion == nil)
        #expect(server.handler.paths.withLock { $0 } == [asked])
        #expect(server.handler.condition.withLock { $0 } == .always)
        _ = try client.unlock(.recoveryCode(try secret("x")), when: .ifUnlocked)
        #expect(server.handler.condition.withLock { $0 } == .ifUnlocked)
        let renewal = RenewalRequest(path: [0xff, 0x2f, 0x61], rate: 5)
        steps = 0
        let renewed = try client.renewKey(renewal) { _ in
            steps += 1
            return true
        }
        #expect(renewed == RenewalReport(isRenewed: true, bytes: 2) && steps == 1)
        #expect(server.handler.renewals.withLock { $0 } == [renewal])
        #expect(try client.formerKeys() == server.handler.formerKeys())
        try client.unmount()
        #expect(server.handler.unmounts.load(ordering: .relaxed) == 1)
    }

    /// Paths that are not relative, or lead out of their root, do not reach the handler.
    @Test(arguments: [
        "2f61", "612f2e2e", "2e2e", "2e", "61002f", "612f2f62", "612f", "6", "zz", String(repeating: "61", count: 4097),
    ])
    func hostilePaths(path: String) throws {
        let server = try TestServer()
        defer { server.stop() }
        let request: JSONValue = ["request": "path", "path": .string(path)]
        #expect(PathRequest(request) == nil)
        #expect(RenewalRequest(["request": "renewKey", "path": .string(path)]) == nil)
        let client = try ControlClient(connecting: server.socket)
        #expect(throws: ControlError.self) { _ = try client.ask(request, seconds: 10) }
        #expect(server.handler.paths.withLock { $0 }.isEmpty)
    }

    @Test func reportsOfPaths() throws {
        var report = PathReport()
        report.visible = [UInt8](repeating: 0xff, count: PathReport.longestPaths / 2)
        report.backing = report.visible
        report.companion = [UInt8](repeating: 0x7e, count: 46)
        #expect(PathReport(report.json) == report)
        #expect(report.json.serialized().count < Channel.maximumFrame)
        #expect(PathReport(["visible": "6", "backing": "61", "name": "verified"]) == nil)
    }

    /// A daemon of another user may send any number of seconds.
    @Test(arguments: [
        ("1e300", 1e6), ("-1e300", 0.0), ("9223372036854775807", 1e6), ("-1", 0), ("2.5", 2.5), ("0", 0),
    ])
    func secondsOfAnotherUsersDaemon(sent: String, read: Double) throws {
        let value = try JSONValue(parsing: Array(sent.utf8))
        guard case .object(let members) = StatusReport().json else { return }
        let report = JSONValue.object(
            members.map { $0.key == "retryAfter" ? JSONMember($0.key, value) : $0 })
        #expect(StatusReport(report)?.retryAfter == read)
        #expect(
            ControlEvent(["event": "willLock", "id": 1, "grace": value]) == .willLock(id: 1, grace: read))
        #expect(JSONValue.number(.nan).seconds == 0 && JSONValue.number(.infinity).seconds == 1e6)
    }

    @Test func aChangeOfClassEndsWithItsClient() throws {
        let server = try TestServer()
        defer { server.stop() }
        let client = try server.raw().release()
        let mode = ClassRequest.Mode.reencrypt.rawValue
        let request = bytes("{\"request\":\"class\",\"path\":\"61\",\"class\":\"complete\",\"mode\":\"\(mode)\"}")
        _ = unsafe request.withUnsafeBytes { unsafe Glibc.send(client, $0.baseAddress, $0.count, 0) }
        #expect(eventually { !server.handler.classes.withLock { $0.isEmpty } })
        // Only half of it: who sends no more may still wait for the answer.
        shutdown(client, Int32(SHUT_WR))
        usleep(50_000)
        #expect(!server.handler.abandoned.withLock { $0 })
        close(client)
        #expect(eventually { server.handler.abandoned.withLock { $0 } })
    }

    @Test func eventsAndWaiting() throws {
        let server = try TestServer()
        defer { server.stop() }
        // Nobody asked: no wait.
        let start = monotonicNanoseconds()
        #expect(server.events.announceLock(grace: longGrace) == .answered)
        #expect(Double(monotonicNanoseconds() - start) < patience * 1e9)
        let watcher = try ControlClient(connecting: server.socket)
        #expect(try watcher.subscribe(wait: false) == .locked)
        let waiter = try ControlClient(connecting: server.socket)
        _ = try waiter.subscribe(wait: true)
        let channel = server.events
        let answered = Lock<EventHub.Wait?>(nil)
        #expect(
            startThread {
                let all = channel.announceLock(grace: longGrace); answered.withLock { $0 = all }
            })
        guard case .willLock(let id, let grace) = try waiter.nextEvent(timeout: patience) else {
            Issue.record("no announcement")
            return
        }
        #expect(grace == longGrace)
        usleep(50_000)
        #expect(answered.withLock { $0 } == nil)
        try waiter.done(id)
        #expect(eventually { answered.withLock { $0 } != nil })
        #expect(answered.withLock { $0 } == .answered)
        server.events.publish(.locked)
        server.events.publish(.firstUnlock)
        #expect(try watcher.nextEvent(timeout: patience) == .willLock(id: id, grace: longGrace))
        #expect(try watcher.nextEvent(timeout: patience) == .locked)
        #expect(try watcher.nextEvent(timeout: patience) == .firstUnlock)
        #expect(throws: ControlError.timedOut) { _ = try watcher.nextEvent(timeout: 0.05) }
        // One who does not answer holds a lock up for the grace and no longer.
        #expect(server.events.announceLock(grace: 0.1) == .timeIsUp)
    }

    @Test func aLockEndsTheWaitsOfEarlierOnes() throws {
        let server = try TestServer()
        defer { server.stop() }
        let waiter = try ControlClient(connecting: server.socket)
        _ = try waiter.subscribe(wait: true)
        let channel = server.events
        let waits = Lock<[EventHub.Wait]>([])
        for _ in 0..<2 {
            #expect(
                startThread {
                    let wait = channel.announceLock(grace: longGrace); waits.withLock { $0.append(wait) }
                })
            guard case .willLock = try waiter.nextEvent(timeout: patience) else {
                Issue.record("no announcement")
                return
            }
        }
        channel.publish(.willUnlock)
        usleep(50_000)
        #expect(waits.withLock { $0 } == [])
        channel.publish(.sweeping(files: 1))
        #expect(eventually { waits.withLock { $0 } == [.overtaken, .overtaken] })
    }

    @Test func noEventIsLostBesideASubscription() throws {
        let server = try TestServer()
        defer { server.stop() }
        let running = server.events
        // The state has been looked at, and changes before the answer is out.
        server.handler.onStatus.withLock {
            $0 = {
                #expect(startThread { running.publish(.unlocked) })
                usleep(50_000)
            }
        }
        let client = try ControlClient(connecting: server.socket)
        #expect(try client.subscribe(wait: false) == .locked)
        #expect(try client.nextEvent(timeout: patience) == .unlocked)
    }

    @Test func aSubscriberThatVanishesIsNotWaitedFor() throws {
        let server = try TestServer()
        defer { server.stop() }
        let gone = Lock<Bool>(false)
        let running = server.events
        let answered = Lock<EventHub.Wait?>(nil)
        do {
            let waiter = try ControlClient(connecting: server.socket)
            _ = try waiter.subscribe(wait: true)
            #expect(
                startThread {
                    let all = running.announceLock(grace: longGrace); answered.withLock { $0 = all }
                })
            _ = try waiter.nextEvent(timeout: patience)
            gone.withLock { $0 = true }
        }
        #expect(eventually { answered.withLock { $0 } != nil })
        #expect(answered.withLock { $0 } == .answered)
    }

    @Test func rubbishIsRefused() throws {
        let server = try TestServer()
        defer { server.stop() }
        for text in [
            "", "{", "[]", "{\"request\":5}", "\u{0}\u{1}", "{\"request\":\"unlock\",\"kind\":\"x\",\"length\":1}",
        ] {
            let connection = try server.raw()
            sendAll(connection, bytes(text))
            let answer = readToEnd(connection)
            #expect(answer != nil, "\(text): the connection stays open")
        }
        for length in [-1, 0, 4097, 1 << 62] as [Int64] {
            let connection = try server.raw()
            sendAll(connection, bytes("{\"request\":\"unlock\",\"kind\":\"passphrase\",\"length\":\(length)}"))
            #expect(readToEnd(connection) != nil)
        }
        for path in ["", "2f61", "2e2e", "612f2e2e2f62", "6100", "zz", "6"] {
            let connection = try server.raw()
            sendAll(
                connection,
                bytes("{\"request\":\"class\",\"path\":\"\(path)\",\"class\":\"complete\",\"mode\":\"reencrypt\"}"))
            shutdown(connection.number, Int32(SHUT_WR))
            let answer = readToEnd(connection) ?? []
            #expect(String(decoding: answer, as: UTF8.self).contains("malformed"), "\(path)")
        }
        #expect(server.handler.unlockCount.load(ordering: .relaxed) == 0)
        #expect(server.handler.classes.withLock { $0 }.isEmpty)
        _ = try ControlClient(connecting: server.socket).status()
    }

    @Test func hugeAndHalfRequests() throws {
        var limits = ControlLimits()
        limits.idle = 0.3
        limits.transfer = 0.3
        let server = try TestServer(limits: limits)
        defer { server.stop() }
        let huge = try server.raw()
        sendAll(huge, [0, 0, 0, 0x40] + [UInt8](repeating: 0x20, count: 100_000))
        let answer = readToEnd(huge) ?? []
        #expect(String(decoding: answer, as: UTF8.self).contains("tooLarge"))
        // Nothing at all, half a length, half a request, half a secret: each is closed in time.
        let request = bytes("{\"request\":\"status\"}")
        let unlock = bytes("{\"request\":\"unlock\",\"kind\":\"passphrase\",\"length\":20}") + Array("half".utf8)
        for start in [[], [7, 0], Array(request.prefix(9)), unlock] as [[UInt8]] {
            let connection = try server.raw()
            sendAll(connection, start)
            #expect(readToEnd(connection) != nil)
        }
        // Byte by byte, slower than the bound.
        let slow = try server.raw()
        for byte in request.prefix(12) {
            sendAll(slow, [byte])
            usleep(50_000)
        }
        #expect(readToEnd(slow) != nil)
        #expect(server.handler.unlockCount.load(ordering: .relaxed) == 0)
        // With limits as short as these an honest client may come too late, too.
        #expect(eventually { (try? ControlClient(connecting: server.socket).status())?.volume == HostPath("/v ü") })
    }

    /// Connections that ask nothing take no room from those that do.
    @Test func manySilentConnections() throws {
        var limits = ControlLimits()
        limits.connections = 8
        limits.idle = longGrace
        let server = try TestServer(limits: limits)
        defer { server.stop() }
        var open: [Int32] = []
        for _ in 0..<200 { open.append(try server.raw().release()) }
        let client = try ControlClient(connecting: server.socket)
        #expect(try client.status().volume == HostPath("/v ü"))
        #expect(try client.lock().cutOff == 3)
        for number in open { close(number) }
    }

    /// If all connections are busy, a lock and a status request are still answered, and other requests are refused at
    /// once.
    @Test func busyConnections() throws {
        var limits = ControlLimits()
        limits.connections = 8
        let server = try TestServer(limits: limits)
        defer { server.stop() }
        var open: [Int32] = []
        for _ in 0..<8 {
            let client = try server.raw()
            sendAll(client, bytes("{\"request\":\"subscribe\"}"))
            #expect(waitUntilReady(client.number, POLLIN, monotonicNanoseconds() + UInt64(patience * 1e9)) == nil)
            open.append(client.release())
        }
        for _ in 0..<20 {
            #expect(try ControlClient(connecting: server.socket).status().volume == HostPath("/v ü"))
            #expect(try ControlClient(connecting: server.socket).lock().cutOff == 3)
            #expect(throws: ControlError.refused(ControlFailure(code: "notNow", details: ["why": "test"]))) {
                server.handler.refusesLocks.store(1, ordering: .relaxed)
                defer { server.handler.refusesLocks.store(0, ordering: .relaxed) }
                _ = try ControlClient(connecting: server.socket).lock(LockRequest(grace: 99))
            }
            #expect(throws: ControlError.refused(ControlFailure(code: "busy", message: "too many connections"))) {
                _ = try ControlClient(connecting: server.socket).info()
            }
        }
        for number in open { close(number) }
    }

    /// A connection that is idle ends where another one is in earnest; a subscriber never does.
    @Test func idleConnectionsMakeRoom() throws {
        var limits = ControlLimits()
        limits.connections = 2
        limits.leastIdle = 0
        limits.idle = longGrace
        let server = try TestServer(limits: limits)
        defer { server.stop() }
        let subscriber = try ControlClient(connecting: server.socket)
        _ = try subscriber.subscribe(wait: false)
        let idle = try ControlClient(connecting: server.socket)
        _ = try idle.status()
        // It is idle when its thread waits again, which is a moment after the answer.
        #expect(eventually { (try? ControlClient(connecting: server.socket).info()) != nil })
        #expect(throws: ControlError.self) { _ = try idle.status() }
        server.events.publish(.locked)
        #expect(try subscriber.nextEvent(timeout: patience) == .locked)
    }

    @Test func aSubscriberThatDoesNotReadIsDropped() throws {
        let server = try TestServer()
        defer { server.stop() }
        let client = try server.raw()
        sendAll(client, bytes("{\"request\":\"subscribe\"}"))
        // Its answer: from here on it is told.
        #expect(waitUntilReady(client.number, POLLIN, monotonicNanoseconds() + UInt64(patience * 1e9)) == nil)
        let start = monotonicNanoseconds()
        for _ in 0..<20_000 { server.events.publish(.locked) }
        #expect(Double(monotonicNanoseconds() - start) < patience * 1e9)
        #expect(readToEnd(client) != nil)
        _ = try ControlClient(connecting: server.socket).status()
    }

    /// A client that keeps asking and reads nothing delays only its own answers, and no events of others.
    @Test func anEventWaitsForNobody() throws {
        var limits = ControlLimits()
        limits.transfer = 2 * patience
        let server = try TestServer(limits: limits)
        let greedy = try server.raw()
        let watcher = try ControlClient(connecting: server.socket)
        _ = try watcher.subscribe(wait: false)
        sendAll(greedy, bytes("{\"request\":\"subscribe\"}"))
        // Until the server itself is stuck with an answer: then it reads no more either.
        let request = bytes("{\"request\":\"status\"}")
        let stuck = monotonicNanoseconds() + 20_000_000_000
        while waitUntilReady(greedy.number, POLLOUT, monotonicNanoseconds() + 300_000_000) == nil,
            monotonicNanoseconds() < stuck
        {
            _ = unsafe request.withUnsafeBytes {
                unsafe Glibc.send(greedy.number, $0.baseAddress, $0.count, Int32(MSG_DONTWAIT) | Int32(MSG_NOSIGNAL))
            }
        }
        let start = monotonicNanoseconds()
        server.events.publish(.locked)
        #expect(server.events.announceLock(grace: 0) == .answered)
        #expect(Double(monotonicNanoseconds() - start) < patience * 1e9)
        #expect(try watcher.nextEvent(timeout: patience) == .locked)
        // What came to wait for it is bounded as well.
        for _ in 0..<20_000 { server.events.publish(.unlocked) }
        #expect(readToEnd(greedy) != nil)
        _ = consume greedy
        server.stop()
    }

    @Test func stopEndsEverything() throws {
        let server = try TestServer()
        let client = try ControlClient(connecting: server.socket)
        _ = try client.subscribe(wait: true)
        server.stop()
        #expect(throws: ControlError.closed) { _ = try client.nextEvent(timeout: patience) }
        #expect(throws: ControlError.self) { _ = try ControlClient(connecting: server.socket) }
    }

    /// The next mount may have the number, and so the socket's path, of one that is still ending.
    @Test func stoppingLeavesTheNextMountsSocket() throws {
        let ending = try TestServer()
        let next = try ControlServer(socket: ending.socket, handler: ending.handler, events: EventHub())
        try next.start()
        ending.stop()
        _ = try ControlClient(connecting: ending.socket).status()
        next.stop()
        ending.stop()
    }

    /// The request that ends the server is answered nevertheless.
    @Test func stoppingAnswersWhatRuns() throws {
        let server = try TestServer()
        let running = server.server
        server.handler.onUnmount.withLock { $0 = { _ = startThread { running.stop() } } }
        try ControlClient(connecting: server.socket).unmount()
        server.stop()
    }
}
