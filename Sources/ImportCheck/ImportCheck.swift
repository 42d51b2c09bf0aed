// Finds source files that use Foundation's own calls instead of FileProtection's, so that protection classes have no
// effect.

/// A problem on one line of a file.
package struct ImportFinding: Equatable, Sendable, CustomStringConvertible {
    /// The line number, from 1.
    package let line: Int
    /// The problem and its correction.
    package let description: String
}

/// The check of one file's imports.
package struct ImportCheck: Sendable {
    /// The problems of the file.
    package private(set) var findings: [ImportFinding] = []
    /// Whether the file imports Foundation on purpose and gives the reason.
    package private(set) var isExcepted = false

    /// The comment that makes a file an exception. A reason must follow it.
    package static let exception = "protectfs: plain Foundation"

    /// Modules that bring Foundation's own members into a file.
    private static let plain: Set<String> = ["Foundation", "FoundationEssentials", "XCTest"]
    /// Modules of this package that bring FileProtection's members into a file.
    private static let protected: Set<String> = ["FileProtection", "UIKitCompat"]
    /// Modules of manifests and plugins. These are not part of the program and can only use Foundation.
    private static let tools: Set<String> = ["PackageDescription", "PackagePlugin"]

    /// Checks the text of a file.
    package init(_ source: [UInt8]) {
        let tokens = SourceTokens(source)
        if let line = tokens.unended {
            findings.append(ImportFinding(line: line, description: "a comment or literal begins here and has no end"))
        }
        let imports = tokens.imports
        guard !imports.contains(where: { Self.tools.contains($0.module) }) else { return }
        let protecting = imports.filter { Self.protected.contains($0.module) }
        let bypasses = imports.filter { Self.plain.contains($0.module) }
        if !bypasses.isEmpty, let (reason, line) = Self.reason(tokens.comments) {
            isExcepted = !reason.isEmpty
            if !isExcepted {
                findings.append(ImportFinding(line: line, description: "the exception needs a reason"))
            }
        }
        guard !isExcepted else { return }
        findings += bypasses.map { found in
            let beside = protecting.first { $0.canStandBeside(found) }
            return ImportFinding(line: found.line, description: Self.text(found, beside: beside?.module))
        }
    }

    private static func reason(_ comments: [(text: String, line: Int)]) -> (String, Int)? {
        for (text, line) in comments {
            let words = text.drop { $0 == " " || $0 == "\t" }
            guard words.hasPrefix(exception) else { continue }
            return (String(words.dropFirst(exception.count).drop { !$0.isLetter && !$0.isNumber }), line)
        }
        return nil
    }

    private static func text(_ found: Import, beside protecting: String?) -> String {
        let module = found.module
        switch (protecting, found.declaration) {
        case (let protecting?, let declaration?):
            return "imports \(module)'s own \(declaration), which hides that of \(protecting); remove this import"
        case (let protecting?, nil) where module == "XCTest":
            return
                "imports XCTest, which exports Foundation, and \(protecting): calls are ambiguous; import XCTestCompat instead"
        case (let protecting?, nil):
            return "imports \(module) and \(protecting): calls are ambiguous; remove the import of \(module)"
        case (nil, _) where module == "XCTest":
            return
                "imports XCTest, which exports Foundation: protection classes do nothing in this file; import FileProtection and XCTestCompat"
        case (nil, _):
            return "imports \(module) alone: protection classes do nothing in this file; import FileProtection instead"
        }
    }
}
