"""`foreign-suites`: a package that was written for an iPhone gets other imports, compiles, and its tests are counted."""

import os
import shutil

from harness import REPOSITORY, Skip, read_file, run, write_file

SCRIPT = os.path.join(REPOSITORY, "mount-scripts/measure/foreign-suites")
MANIFEST = """// swift-tools-version: 5.9
import PackageDescription

let package = Package(
    name: "jotter", targets: [.target(name: "Jotter"), .testTarget(name: "JotterTests", dependencies: ["Jotter"])])
"""
PACKAGE = {
    "Package.swift": MANIFEST,
    "Sources/Jotter/Jotter.swift": """import Foundation
#if canImport(os)
import os.log
#endif

public struct Jotter {
    let folder = FileManager.default.temporaryDirectory

    public func save(_ name: String) throws {
        try Data("x".utf8).write(to: folder.appendingPathComponent(name), options: .completeFileProtection)
        Logger(subsystem: "jotter", category: "save").info("saved")
    }

    public func protection(of name: String) throws -> FileProtectionType? {
        let path = folder.appendingPathComponent(name).path
        return try FileManager.default.attributesOfItem(atPath: path)[.protectionKey] as? FileProtectionType
    }
}
""",
    "Tests/JotterTests/JotterTests.swift": """import XCTest
@testable import Jotter

final class JotterTests: XCTestCase {
    func testClass() throws {
        try Jotter().save("note")
        XCTAssertEqual(try Jotter().protection(of: "note"), .complete)
        XCTAssertTrue(FileManager.default.fileExists(atPath: Jotter().folder.path))
    }

    func testThatFails() { XCTFail("as it is meant") }
}
""",
    "Tests/JotterTests/NewTests.swift": """import Foundation
import Testing

@Test func addition() { #expect(Data().isEmpty) }
@Test(arguments: [1, 2]) func numbers(_ number: Int) { #expect(number < 3) }
""",
}
# Lines of sources, and what they become.
LINES = (
    ("import Foundation", "import FileProtection"),
    ("import FoundationNetworking", "import FoundationNetworking"),
    ("import class Foundation.FileManager", "import FileProtection"),
    ("@_exported public import Foundation; import UIKit  // both", "@_exported public import FileProtection; import UIKitCompat  // both"),
    ("  @preconcurrency import LocalAuthentication", "  @preconcurrency import Secrets"),
    ("#elseif os(iOS) || canImport( os) && !canImport(Darwin)", "#elseif os(iOS) || canImport(OSLogCompat) && !canImport(Darwin)"),
    ("let canImport = \"import Foundation\" // import Foundation", "let canImport = \"import Foundation\" // import Foundation"),
    ("import XCTest", "import FileProtection\nimport XCTestCompat"),
    ("import Foundation\nlet item = kSecClass", "import Secrets\nimport FileProtection\nlet item = kSecClass"),
    ("import Foundation\nimport Security\nlet item = kSecClass", "import FileProtection\nimport Secrets\nlet item = kSecClass"),
)


def made(environment, name, files):
    package = os.path.join(environment.new_path("packages"), name)
    for path, text in files.items():
        path = os.path.join(package, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        write_file(path, text.encode())
    return package


def compiled(environment):
    """What is said of a package with a test that fails, and of one that does not compile."""
    mount, package = environment.mount(), made(environment, "jotter", PACKAGE)
    broken = made(environment, "broken", {**PACKAGE, "Sources/Jotter/Jotter.swift": "import Foundation\nlet none = NoSuchName()\n"})
    done = run("nice", SCRIPT, "--mount", mount.path, package, broken, ok=False, timeout=1800)
    rows = [line.split() for line in done.stdout.splitlines()]
    environment.cell("rows", [["package", "compiles", "passed", "failed"], ["jotter", "yes", "3", "1"], ["broken", "no", "-", "-"]], rows)
    environment.cell("exit code", 1, done.returncode)
    environment.cell("what is wrong", (True, True), ("jotter: failed: JotterTests.testThatFails" in done.stderr, "NoSuchName" in done.stderr))


def test_foreign_suites(environment):
    """What the copy of a package has in place of Apple's modules, and that the package stays as it is. With --mode full a package
    is compiled, and its tests run in a mount: those that pass and fail are counted."""
    files = {"Package.swift": MANIFEST, "Tests/JotterTests/Empty.swift": "", **{f"Sources/Jotter/{at}.swift": before for at, (before, _) in enumerate(LINES)}}
    package, work = made(environment, "jotter", files), environment.new_path("work")
    os.makedirs(os.path.join(package, ".build/debug"))
    run(SCRIPT, "--changes-only", "--work", work, package)
    copy = lambda path, place=work: read_file(os.path.join(place, "jotter", path)).decode()
    for at, (before, after) in enumerate(LINES):
        environment.cell(before, after, copy(f"Sources/Jotter/{at}.swift"))
    manifest = copy("Package.swift")
    added = [line for line in manifest.removeprefix(MANIFEST).splitlines() if line.strip("}")]
    environment.cell("the manifest", (True, 5), (manifest.startswith(MANIFEST), len(added)))
    environment.cell("the checkout", (f'package.dependencies.append(.package(path: "{work}/protectfs"))', REPOSITORY),
                     (added[0], os.path.realpath(f"{work}/protectfs")))
    environment.cell("nothing that was built", False, os.path.exists(os.path.join(work, "jotter/.build")))
    environment.cell("the package", files, {name: read_file(os.path.join(package, name)).decode() for name in files})
    other = environment.new_path("other")
    run(SCRIPT, "--changes-only", "--work", other, "--keep", "UIKit", package)
    environment.cell("an import that is kept", True, "import UIKit  // both" in copy("Sources/Jotter/3.swift", other))
    done = run(SCRIPT, "--changes-only", "--work", os.path.dirname(package), package, ok=False)
    environment.cell("never over the package", (2, MANIFEST), (done.returncode, read_file(package + "/Package.swift").decode()))
    done = run(SCRIPT, "--changes-only", "--work", other, os.path.join(package, "Sources"), ok=False)
    environment.cell("no package", (1, True), (done.returncode, "it has no Package.swift" in done.stderr))
    if not shutil.which("swift"):
        raise Skip("there is no swift")
    said = run("swift", "package", "describe", "--type", "json", cwd=os.path.join(work, "jotter"), timeout=600).stdout
    environment.cell("the package manager reads it", True, all(f'"{name}"' in said for name in ("FileProtection", "Secrets", "XCTestCompat")))
    if environment.mode == "full":
        compiled(environment)


test_foreign_suites.time_limit = 7200
