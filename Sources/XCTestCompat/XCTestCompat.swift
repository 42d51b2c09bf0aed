// The names of XCTest without Foundation's, which XCTest exports: with these, FileProtection's calls are not ambiguous.

// protectfs: plain Foundation: names of XCTest alone, and no calls.
@_exported import class XCTest.XCTNSNotificationExpectation
@_exported import class XCTest.XCTNSPredicateExpectation
@_exported import func XCTest.XCTAssert
@_exported import func XCTest.XCTAssertEqual
@_exported import func XCTest.XCTAssertFalse
@_exported import func XCTest.XCTAssertGreaterThan
@_exported import func XCTest.XCTAssertGreaterThanOrEqual
@_exported import func XCTest.XCTAssertIdentical
@_exported import func XCTest.XCTAssertLessThan
@_exported import func XCTest.XCTAssertLessThanOrEqual
@_exported import func XCTest.XCTAssertNil
@_exported import func XCTest.XCTAssertNoThrow
@_exported import func XCTest.XCTAssertNotEqual
@_exported import func XCTest.XCTAssertNotIdentical
@_exported import func XCTest.XCTAssertNotNil
@_exported import func XCTest.XCTAssertThrowsError
@_exported import func XCTest.XCTAssertTrue
@_exported import func XCTest.XCTFail
@_exported import func XCTest.XCTMain
@_exported import func XCTest.XCTSkipIf
@_exported import func XCTest.XCTSkipUnless
@_exported import func XCTest.XCTUnwrap
@_exported import func XCTest.asyncTest
@_exported import func XCTest.testCase
@_exported import struct XCTest.XCTPerformanceMetric
@_exported import struct XCTest.XCTSkip
@_exported import class XCTest.XCTWaiter
@_exported import class XCTest.XCTest
@_exported import class XCTest.XCTestCase
@_exported import class XCTest.XCTestExpectation
@_exported import protocol XCTest.XCTestObservation
@_exported import class XCTest.XCTestObservationCenter
@_exported import class XCTest.XCTestRun
@_exported import class XCTest.XCTestSuite
