// A suite in the manner of applications' own, with XCTest: the directory of its files is in the environment.

import FileProtection
import XCTestCompat

final class RecordsTests: XCTestCase {
    private var folder = URL(fileURLWithPath: "/")

    override func setUpWithError() throws {
        let place = try XCTUnwrap(ProcessInfo.processInfo.environment["RECORDS"])
        folder = URL(fileURLWithPath: place).appendingPathComponent("records")
        try FileManager.default.createDirectory(
            at: folder, withIntermediateDirectories: true, attributes: [.protectionKey: FileProtectionType.complete])
    }

    override func tearDownWithError() throws { try FileManager.default.removeItem(at: folder) }

    func testAClassOfAFile() throws {
        let url = folder.appendingPathComponent("record")
        try Data("record".utf8).write(to: url, options: [.atomic, .completeFileProtectionUnlessOpen])
        let attributes = try FileManager.default.attributesOfItem(atPath: url.path)
        XCTAssertEqual(attributes[.protectionKey] as? String, "NSFileProtectionCompleteUnlessOpen")
        XCTAssertEqual(try url.resourceValues(forKeys: [.fileProtectionKey]).fileProtection, .completeUnlessOpen)
    }

    func testAMissingFile() {
        XCTAssertThrowsError(try Data(contentsOf: folder.appendingPathComponent("none"))) { error in
            XCTAssertFalse(error.isProtectedDataUnavailable)
        }
    }

    func testAnExpectation() {
        let done = expectation(description: "done")
        DispatchQueue.global().async { done.fulfill() }
        wait(for: [done], timeout: 5)
    }
}

XCTMain([
    testCase([
        ("testAClassOfAFile", RecordsTests.testAClassOfAFile), ("testAMissingFile", RecordsTests.testAMissingFile),
        ("testAnExpectation", RecordsTests.testAnExpectation),
    ])
])
