// Tests that a warning that cannot be written neither ends nor delays the program.

import CLibrary
import Testing

@testable import FileProtection

@Suite struct WarningTests {
    private func pipe() throws -> (reading: Int32, writing: Int32) {
        var ends: [Int32] = [0, 0]
        try #require(unsafe CLibrary.pipe(&ends) == 0)
        return (ends[0], ends[1])
    }

    @Test func aPipeThatNobodyReadsIsIgnored() throws {
        let (reading, writing) = try pipe()
        defer { close(writing) }
        close(reading)
        Warning.write("text", to: writing)
    }

    @Test func aFullPipeIsIgnored() throws {
        let (reading, writing) = try pipe()
        defer {
            close(reading)
            close(writing)
        }
        let flags = fcntl(writing, F_GETFL)
        _ = fcntl(writing, F_SETFL, flags | O_NONBLOCK)
        let bytes = [UInt8](repeating: 0, count: 4096)
        while unsafe write(writing, bytes, bytes.count) > 0 {}
        _ = fcntl(writing, F_SETFL, flags)
        Warning.write("text", to: writing)
    }

    @Test func aClosedDescriptorIsIgnored() { Warning.write("text", to: 1 << 20) }

    @Test func aWarningIsALine() throws {
        let (reading, writing) = try pipe()
        defer { close(reading) }
        Warning.write("text", to: writing)
        close(writing)
        var bytes = [UInt8](repeating: 0, count: 64)
        let count = unsafe read(reading, &bytes, bytes.count)
        #expect(String(decoding: bytes.prefix(max(count, 0)), as: UTF8.self) == "text\n")
    }
}
