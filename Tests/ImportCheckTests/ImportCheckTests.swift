// Tests the import check with every form of imports.

import ImportCheck
import Testing

/// The lines that the check names.
private func lines(_ source: String) -> [Int] { ImportCheck(Array(source.utf8)).findings.map(\.line) }

private func texts(_ source: String) -> [String] { ImportCheck(Array(source.utf8)).findings.map(\.description) }

@Test(
    arguments: [
        "import Foundation", "@preconcurrency import Foundation", "@testable import Foundation",
        "@_exported import Foundation", "@_spi(Inside) import Foundation", "internal import Foundation",
        "public import Foundation", "private import Foundation", "import struct Foundation.Data",
        "import class Foundation.FileManager", "import Foundation.NSData", "import FoundationEssentials",
        "import `Foundation`", "import  Foundation // all of it", "import/**/Foundation", "import XCTest",
        "import Dispatch; import Foundation", "import Secrets;import Foundation",
        "import Glibc /* a */ ; import Foundation",
        "let text = \"a\" ; import Foundation", "let text = \"\\(value(\"b\"))\"; import Foundation",
        "let text = #\"\\\"#; import Foundation", "let text = \"//\"; import Foundation",
        "let text = \"/*\"; import Foundation", "#if os(Linux)\n#endif\nimport Foundation",
        "/* a /* b */ c */ import Foundation", "var body: some View { a } ; import Foundation",
    ])
func bypasses(_ source: String) {
    #expect(lines(source).count == 1, "\(source)")
    #expect(texts(source).allSatisfy { $0.contains("do nothing in this file") })
    #expect(lines("// opening\n\n" + source + "\nlet a = 1\n").map { $0 - 2 } == lines(source))
}

@Test(
    arguments: [
        "", "import FileProtection", "import UIKitCompat", "import FileProtection\nimport Secrets",
        "import FileProtection; import Dispatch", "import Glibc", "import FoundationNetworking\nimport FileProtection",
        "import FoundationExtras", "import MyFoundation", "import Testing",
        "// import Foundation", "/// import Foundation", "/* import Foundation */", "/* a /* b */ import Foundation */",
        "/*\nimport Foundation\n*/", "let a = \"import Foundation\"", "let a = \"\"\"\nimport Foundation\n\"\"\"",
        "let a = #\"\"\"\n\"\"\" import Foundation\n\"\"\"#", "let a = \"\\(b(\"c\")) import Foundation\"",
        "let a = \"\"\"\n\\(b(\"\"\"\nc\n\"\"\"))\nimport Foundation\n\"\"\"", "let a = \"\\\"import Foundation\"",
        "let a = #\"\\#(b) \" import Foundation\"#", "let a = #/import Foundation/#",
        "let a = #/\nimport Foundation\n/#",
        "a.import", "f(import: Foundation)", "func f(import Foundation: Int) {}", "let `import` = Foundation.self",
        "import PackageDescription\nimport Foundation", "import PackagePlugin\nimport Foundation",
    ])
func others(_ source: String) {
    #expect(texts(source) == [], "\(source)")
}

@Test(
    arguments: [
        ("import Foundation\nimport FileProtection", [1], "ambiguous"),
        ("import FileProtection\nimport Foundation", [2], "ambiguous"),
        ("import UIKitCompat; import Foundation", [1], "ambiguous"),
        ("import FileProtection\nimport FoundationEssentials", [2], "ambiguous"),
        ("import FileProtection\nimport XCTest", [2], "XCTest, which exports Foundation"),
        ("import FileProtection\nimport class Foundation.FileManager", [2], "own FileManager, which hides"),
        ("import Foundation\nimport FoundationEssentials", [1, 2], "alone"),
    ])
func severalImports(_ source: String, _ expected: [Int], _ words: String) {
    #expect(lines(source) == expected)
    #expect(texts(source).allSatisfy { $0.contains(words) })
}

@Test(
    arguments: [
        // What no build on Linux has.
        ("os(macOS)", []), ("!os(Linux)", []), ("canImport(UIKit)", []), ("canImport(Darwin)", []), ("false", []),
        ("os(macOS) || os(iOS)", []), ("os(Linux) && canImport(UIKit)", []), ("!(os(Linux) || DEBUG)", []),
        ("targetEnvironment(simulator)", []), ("os(macOS) && DEBUG", []),
        // What one can have.
        ("os(Linux)", [2]), ("DEBUG", [2]), ("!DEBUG", [2]), ("canImport(Foundation)", [2]), ("true", [2]),
        ("os(macOS) || DEBUG", [2]), ("swift(>=6.0)", [2]), ("canImport(MyModule)", [2]), ("!os(macOS) // why", [2]),
        ("os(Linux) /* and */ || DEBUG", [2]), ("arch(x86_64)", [2]), ("compiler(>=6.2) && !os(Windows)", [2]),
    ] as [(String, [Int])])
func conditions(_ condition: String, _ expected: [Int]) {
    #expect(lines("#if \(condition)\nimport Foundation\n#endif\n") == expected, "\(condition)")
}

@Test func branches() {
    func file(_ condition: String) -> String {
        "#if \(condition)\nimport FileProtection\n#else\nimport Foundation\n#endif\n"
    }
    #expect(lines(file("os(Linux)")) == [])
    #expect(lines(file("canImport(FileProtection)")) == [])
    #expect(lines(file("os(macOS)")) == [4])
    // Never both, so it is the import alone that is told.
    #expect(texts(file("PROTECTED")).map { $0.contains("alone") } == [true])
    #expect(lines("#if os(macOS)\n#elseif os(Linux)\nimport FileProtection\n#else\nimport Foundation\n#endif") == [])
    #expect(lines("#if A\nimport Foundation\n#elseif os(Linux)\n#else\nimport Foundation\n#endif") == [2])
    #expect(lines("#if os(macOS)\n#if A\nimport Foundation\n#else\nimport Foundation\n#endif\n#endif") == [])
    #expect(lines("#if A\nimport FileProtection\n#endif\n#if !A\nimport Foundation\n#endif") == [5])
    // Unbalanced, as in a file that does not compile.
    #expect(lines("#endif\n#else\nimport Foundation") == [3])
}

@Test func exceptions() {
    let excepted = ImportCheck(Array("// protectfs: plain Foundation: dates only\nimport Foundation\n".utf8))
    #expect(excepted.isExcepted && excepted.findings.isEmpty)
    #expect(ImportCheck(Array("import Foundation  //   protectfs: plain Foundation – dates only".utf8)).isExcepted)
    for text in ["", ":", " –"] {
        let source = "import Foundation\n// protectfs: plain Foundation\(text)\n"
        #expect(lines(source) == [2, 1], "a reason has to be given")
    }
    for text in ["/* protectfs: plain Foundation: no */", "let a = \"// protectfs: plain Foundation: no\""] {
        #expect(lines("import Foundation\n" + text) == [1])
    }
    #expect(!ImportCheck(Array("// protectfs: plain Foundation: nothing to except\n".utf8)).isExcepted)
}

@Test func filesWithoutEnd() {
    for text in ["/* /* */", "let a = \"\"\"\n", "let a = #/ ", "let a = ##\"\"\" \"\"\"#"] {
        #expect(texts("\n" + text + "\nimport Foundation").map { $0.contains("has no end") } == [true], "\(text)")
        #expect(lines("\n" + text) == [2])
    }
    // A quotation mark in an expression without hashes hides the rest of its line, and no more.
    #expect(lines("let odd = /\"/; _ = 1\nimport Foundation\n") == [2])
    for byte in UInt8.min...UInt8.max { _ = ImportCheck([byte]) }
}
