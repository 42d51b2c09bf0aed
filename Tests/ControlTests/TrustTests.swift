// Tests the request `trust`: a file by its path, or all files, and nothing else.

import HostSystem
import Testing

@testable import Control

@Suite struct TrustTests {
    @Test func aFileOrAllFiles() throws {
        let server = try TestServer()
        defer { server.stop() }
        let client = try ControlClient(connecting: server.socket)
        let asked = [TrustRequest(path: [0xff, 0x2f, 0x61]), TrustRequest(path: nil)]
        for one in asked { try client.trust(one) }
        #expect(server.handler.trusted.withLock { $0 } == asked)
    }

    @Test(arguments: ["", "2f61", "612f2e2e", "2e", "61002f", "6", "zz", String(repeating: "61", count: 4097)])
    func hostilePaths(path: String) throws {
        let server = try TestServer()
        defer { server.stop() }
        let request: JSONValue = ["request": "trust", "path": .string(path), "all": false]
        #expect(TrustRequest(request) == nil)
        let client = try ControlClient(connecting: server.socket)
        #expect(throws: ControlError.self) { _ = try client.ask(request, seconds: 10) }
        #expect(server.handler.trusted.withLock { $0 }.isEmpty)
    }
}
