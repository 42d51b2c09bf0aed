// Tests kernel releases as distributions write them.

import FuseBridge
import Testing

struct KernelVersionTests {
    @Test(arguments: [
        ("6.1.0-18-amd64", 6, 1), ("6.16-rc1", 6, 16), ("6.18.44-fc", 6, 18), ("10.0", 10, 0),
        ("5.15.167.4-microsoft-standard-WSL2", 5, 15),
    ])
    func releases(_ release: String, _ major: Int, _ minor: Int) {
        #expect(KernelVersion(release: release) == KernelVersion(major, minor))
    }

    @Test(arguments: ["", "6", "six.1", "6.", ".1"])
    func others(_ release: String) {
        #expect(KernelVersion(release: release) == nil)
    }

    @Test func order() throws {
        #expect(KernelVersion(6, 9) < KernelVersion(6, 16))
        #expect(KernelVersion(5, 19) < KernelVersion(6, 0))
        #expect(try #require(KernelVersion.running) > KernelVersion(4, 0))
    }
}
